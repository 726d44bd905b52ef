#include "index/posting_reader.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"

namespace longformer::index {
namespace {

/// The form of the tables, in words_config.
constexpr Index kFormOfTables = 4;
/// Rows of words_data.
constexpr Index kTotalsRow = 1, kStructureRow = 10;
/// Bits of a row's id that are the number of a page in its segment.
constexpr int kPageBits = 37;
/// Segments and pages have smaller numbers.
constexpr Index kMostInStructure = (Index{1} << 31) - 1;
/// A leaf begins with the places of the first passage without delta and of its own index.
constexpr std::size_t kLeafHeader = 4;
/// Words of the main index begin with it; those of prefix indexes with others.
constexpr char kMainIndex = '0';

std::size_t big_endian_16(std::span<const std::uint8_t> bytes, std::size_t place) {
  return std::size_t{bytes[place]} << 8 | bytes[place + 1];
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Each place ends with the one byte of it that is below 128.
Index places_in(std::span<const std::uint8_t> bytes) {
  Index count = 0;
  for (const std::uint8_t byte : bytes) count += byte < 0x80 ? 1 : 0;
  return count;
}

}  // namespace

std::span<const std::uint8_t> unsigned_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

std::uint64_t read_varint(std::span<const std::uint8_t> bytes, std::size_t& place) {
  constexpr int kMostBytes = 9;
  std::uint64_t value = 0;
  for (int i = 1; place < bytes.size(); ++i) {
    const std::uint8_t byte = bytes[place++];
    if (i == kMostBytes) return value << 8 | byte;
    value = value << 7 | (byte & 0x7f);
    if (byte < 0x80) return value;
  }
  place = bytes.size() + 1;
  return 0;
}

SegmentCursor::SegmentCursor(const Database& database, const WordSegment& segment)
    : database_(&database),
      segment_(segment),
      pages_(database.prepare("SELECT id, block FROM words_data WHERE id BETWEEN ? AND ?")),
      starts_(database.prepare("SELECT pgno FROM words_idx WHERE segid = ? AND term <= ? "
                               "ORDER BY term DESC LIMIT 1")) {}

std::uint64_t SegmentCursor::long_varint(std::size_t& place) const {
  const std::uint64_t value = read_varint(leaf_.first(content_end_), place);
  if (place > content_end_) database_->fail_damaged();
  return value;
}

void SegmentCursor::seek(std::string_view word) {
  batch_.clear();
  next_ = 0;
  if (find(word)) read_batch();
}

void SegmentCursor::drop(std::size_t count) {
  next_ += count;
  if (next_ == batch_.size()) read_batch();
}

void SegmentCursor::read_page() {
  leaf_ = unsigned_bytes(pages_.bytes(1));
  if (pages_.integer(0) != (segment_.id << kPageBits) + page_ || leaf_.size() < kLeafHeader) {
    database_->fail_damaged();
  }
  content_end_ = big_endian_16(leaf_, 2);
  if (content_end_ < kLeafHeader || content_end_ > leaf_.size()) database_->fail_damaged();
}

/// The page of a list that goes on: up to its first word, if it has one.
bool SegmentCursor::read_next_page() {
  if (page_ >= segment_.last_page) return false;
  ++page_;
  if (!pages_.step()) database_->fail_damaged();
  read_page();
  std::size_t index = content_end_;
  goes_on_ = index == leaf_.size();
  list_end_ = goes_on_ ? content_end_ : read_varint(leaf_, index);
  if (list_end_ < kLeafHeader || list_end_ > content_end_) database_->fail_damaged();
  const std::size_t first = big_endian_16(leaf_, 0);
  place_ = first == 0 ? list_end_ : first;
  if (place_ < kLeafHeader) database_->fail_damaged();
  passage_ = 0;
  return true;
}

/// Goes to the list of a word, if the segment has it.
bool SegmentCursor::find(std::string_view word) {
  const std::string wanted = kMainIndex + std::string(word);
  starts_.bind(1, segment_.id).bind(2, bytes_of(wanted));
  page_ = segment_.first_page;
  // The last bit tells of an index of the list.
  if (starts_.step()) page_ = std::max(page_, starts_.integer(0) >> 1);
  starts_.reset();
  const Index first_row = segment_.id << kPageBits;
  pages_.reset();
  pages_.bind(1, first_row + page_).bind(2, first_row + segment_.last_page);
  if (!pages_.step()) database_->fail_damaged();
  read_page();
  std::string term;
  std::size_t place = 0;
  for (std::size_t index = content_end_; index < leaf_.size();) {
    const bool is_first = place == 0;
    place += read_varint(leaf_, index);
    if (place < kLeafHeader || place >= content_end_) database_->fail_damaged();
    std::size_t byte = place;
    const std::uint64_t kept = is_first ? 0 : varint(byte);
    const std::uint64_t size = varint(byte);
    if (kept > term.size() || size > content_end_ - byte) database_->fail_damaged();
    term.resize(kept);
    term.append(reinterpret_cast<const char*>(leaf_.data()) + byte, size);
    if (term < wanted) continue;
    if (term > wanted) return false;
    place_ = byte + size;
    goes_on_ = index == leaf_.size();
    list_end_ = goes_on_ ? content_end_ : place + read_varint(leaf_, index);
    if (list_end_ > content_end_) database_->fail_damaged();
    passage_ = 0;
    return true;
  }
  return false;
}

void SegmentCursor::read_batch() {
  batch_.clear();
  next_ = 0;
  while (batch_.empty()) {
    if (place_ < list_end_) {
      read_postings();
    } else if (!goes_on_ || !read_next_page()) {
      // An open statement would keep others from writing.
      goes_on_ = false;
      pages_.reset();
      return;
    }
  }
}

void SegmentCursor::read_postings() {
  // A posting has two bytes or more.
  batch_.resize((list_end_ - place_) / 2 + 1);
  std::size_t read = 0;
  while (place_ < list_end_) {
    passage_ += static_cast<Index>(varint(place_));
    // The last bit tells of a removal.
    const std::size_t bytes = varint(place_) >> 1;
    if (place_ > list_end_) database_->fail_damaged();
    Posting& posting = batch_[read++];
    posting.passage = passage_;
    if (bytes > list_end_ - place_) {
      posting.count = count_places(bytes);
      break;
    }
    posting.count = places_in(leaf_.subspan(place_, bytes));
    place_ += bytes;
  }
  batch_.resize(read);
}

/// Places of a passage that go on in further pages.
Index SegmentCursor::count_places(std::size_t bytes) {
  Index count = 0;
  for (std::size_t from = place_;;) {
    const std::size_t here = std::min(bytes, content_end_ - from);
    count += places_in(leaf_.subspan(from, here));
    bytes -= here;
    if (bytes == 0) return count;
    if (!goes_on_ || !read_next_page()) database_->fail_damaged();
    from = kLeafHeader;
  }
}

PostingReader::PostingReader(const Database& database) : database_(database) {
  Statement form = database.prepare("SELECT v FROM words_config WHERE k = 'version'");
  can_read_ = form.step() && form.integer(0) == kFormOfTables;
  form.reset();
  if (can_read_) read_segments();
}

void PostingReader::read_segments() {
  // In the place of a count of levels a later form has these bytes behind the cookie.
  constexpr std::size_t kCookie = 4;
  constexpr std::uint8_t kLaterForm = 0xff;
  Statement rows = database_.prepare("SELECT block FROM words_data WHERE id = ?");
  const auto read = [&](Index row, std::vector<std::uint8_t>& bytes) {
    if (!rows.bind(1, row).step()) database_.fail_damaged();
    const auto found = unsigned_bytes(rows.bytes(0));
    bytes.assign(found.begin(), found.end());
    rows.reset();
  };
  std::vector<std::uint8_t> bytes;
  std::size_t place = 0;
  const auto next = [&] {
    const auto value = static_cast<Index>(read_varint(bytes, place));
    if (place > bytes.size() || value < 0) database_.fail_damaged();
    return value;
  };
  read(kTotalsRow, bytes);
  if (!bytes.empty()) {
    passages_ = next();
    words_ = next();
  }
  read(kStructureRow, bytes);
  place = kCookie;
  can_read_ = bytes.size() > kCookie && bytes[kCookie] != kLaterForm;
  if (!can_read_) return;
  const Index levels = next();
  next();  // the segments of all levels
  next();  // what was written so far
  for (Index level = 0; level < levels; ++level) {
    next();  // those that are being merged
    std::vector<WordSegment> segments;
    for (Index left = next(); left > 0; --left) {
      WordSegment& one = segments.emplace_back();
      for (Index* field : {&one.id, &one.first_page, &one.last_page}) {
        *field = next();
        if (*field > kMostInStructure) database_.fail_damaged();
      }
    }
    std::reverse(segments.begin(), segments.end());
    for (const WordSegment& one : segments) {
      // All of a segment may have gone into one that is being merged.
      if (one.first_page > 0) cursors_.emplace_back(database_, one);
    }
  }
}

void PostingReader::each(std::string_view word,
                         const std::function<void(std::span<const Posting>)>& use) {
  for (SegmentCursor& cursor : cursors_) cursor.seek(word);
  std::vector<Posting> present;
  for (;;) {
    SegmentCursor* lowest = nullptr;
    Index first = std::numeric_limits<Index>::max(), limit = first;
    for (SegmentCursor& cursor : cursors_) {
      // A newer segment's posting of a passage stands above those of older ones.
      while (lowest != nullptr && !cursor.rest().empty() &&
             cursor.rest().front().passage == first) {
        cursor.drop(1);
      }
      if (cursor.rest().empty()) continue;
      const Index passage = cursor.rest().front().passage;
      if (passage < first) {
        limit = std::exchange(first, passage);
        lowest = &cursor;
      } else {
        limit = std::min(limit, passage);
      }
    }
    if (lowest == nullptr) return;
    const std::span<const Posting> rest = lowest->rest();
    const auto end =
        std::lower_bound(rest.begin() + 1, rest.end(), limit,
                         [](const Posting& one, Index passage) { return one.passage < passage; });
    const auto run = rest.first(static_cast<std::size_t>(end - rest.begin()));
    const auto is_removed = [](const Posting& one) { return one.count == 0; };
    if (std::none_of(run.begin(), run.end(), is_removed)) {
      use(run);
    } else {
      present.clear();
      std::remove_copy_if(run.begin(), run.end(), std::back_inserter(present), is_removed);
      use(present);
    }
    lowest->drop(run.size());
  }
}

}  // namespace longformer::index
