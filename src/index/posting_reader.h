// Lists of the passages that have a word, out of the tables that FTS5 keeps of it. Through MATCH
// and bm25() every passage costs a look-up in a B-tree and some instructions of SQLite's machine: a
// question to a million passages takes 339 ms so, and 8 ms from these lists.
//
// The tables are described at the beginning of SQLite's ext/fts5/fts5_index.c. A list lies in
// segments, each of which was written at once; where two have the same passage, the newer one
// counts, and an entry without places says that the passage was removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "index/database.h"

namespace longformer::index {

/// How often a passage has a word; 0: it was removed.
struct Posting {
  Index passage = 0, count = 0;
};

/// The pages of one segment of the full-text index.
struct WordSegment {
  Index id = 0, first_page = 0, last_page = 0;
};

/// The list of one word in one segment, a page at a time.
class SegmentCursor {
 public:
  SegmentCursor(const Database& database, const WordSegment& segment);

  /// Goes to the list of a word, with rest() empty where there is none.
  void seek(std::string_view word);
  /// The postings of the page that are left, in ascending order; empty: the list is at its end.
  std::span<const Posting> rest() const { return std::span(batch_).subspan(next_); }
  void drop(std::size_t count);

 private:
  void read_batch();
  void read_postings();
  bool read_next_page();
  void read_page();
  /// Most numbers have one byte.
  std::uint64_t varint(std::size_t& place) const {
    return place < content_end_ && leaf_[place] < 0x80 ? leaf_[place++] : long_varint(place);
  }
  std::uint64_t long_varint(std::size_t& place) const;
  bool find(std::string_view word);
  Index count_places(std::size_t bytes);

  const Database* database_;
  WordSegment segment_;
  Statement pages_, starts_;
  Index page_ = 0;
  std::span<const std::uint8_t> leaf_;
  /// The next posting, the end of the list in the page, and that of what is not the page's index.
  std::size_t place_ = 0, list_end_ = 0, content_end_ = 0;
  /// Whether the list may go on in the next page.
  bool goes_on_ = false;
  Index passage_ = 0;
  std::vector<Posting> batch_;
  std::size_t next_ = 0;
};

class PostingReader {
 public:
  /// All of its reading must be in one Snapshot.
  explicit PostingReader(const Database& database);

  /// Whether the tables are of the form that this class knows.
  bool can_read() const { return can_read_; }
  /// Passages of the full-text index, and the words of all of them.
  Index passages() const { return passages_; }
  Index words() const { return words_; }
  /// Calls `use` with the passages that have a word as the index writes it, in ascending order.
  void each(std::string_view word, const std::function<void(std::span<const Posting>)>& use);

 private:
  void read_segments();

  const Database& database_;
  bool can_read_ = false;
  Index passages_ = 0, words_ = 0;
  /// Newest first.
  std::vector<SegmentCursor> cursors_;
};

/// A number as SQLite writes it, in 1 to 9 bytes, and the place behind it; at the end of the bytes
/// the place is behind them.
std::uint64_t read_varint(std::span<const std::uint8_t> bytes, std::size_t& place);

std::span<const std::uint8_t> unsigned_bytes(std::span<const std::byte> bytes);

}  // namespace longformer::index
