#include "library.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "failure.h"
#include "longformer/embedding.h"
#include "offsets.h"
#include "pass_size.h"

namespace longformer::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPassageTokens = 128;
/// Bytes that are read at a time and can be found from then on. The first part is short, so that
/// the first hits come after a second.
constexpr std::size_t kFirstPart = 16 << 10, kLongestPart = 128 << 10;
/// Who waits for the same text that another request reads looks again after this time.
constexpr std::chrono::milliseconds kPatience(200);

/// 64 bits of a text that differ for each seed.
std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t bits = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
  for (const char byte : text) {
    bits = (bits ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    bits ^= bits >> 32;
  }
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

std::string id_of(std::string_view name, std::string_view text_hash) {
  const std::string both = fmt::format("{}\n{}", text_hash, name);
  return fmt::format("{:016x}{:016x}", hash(both, 1), hash(both, 2));
}

/// The byte where so many more characters are over.
std::size_t skip(std::string_view text, std::size_t byte, std::int64_t characters) {
  for (; characters > 0 && byte < text.size(); --characters) {
    ++byte;
    while (byte < text.size() && is_continuation(text[byte])) ++byte;
  }
  return byte;
}

/// Text between two passages, before the first one, or behind the last one.
struct Gap {
  std::int64_t begin = 0, end = 0;
  std::string text;
};

/// The gaps of a text, in order.
std::vector<Gap> gaps_of(std::string_view text, std::span<const CharacterSpan> passages,
                         std::int64_t characters) {
  std::vector<Gap> gaps;
  std::int64_t position = 0;
  std::size_t byte = 0;
  const auto move_to = [&](std::int64_t to) {
    byte = skip(text, byte, to - position);
    position = to;
  };
  const auto add = [&](std::int64_t end) {
    const Gap gap = {.begin = position, .end = end, .text = {}};
    const std::size_t first = byte;
    move_to(end);
    gaps.push_back({gap.begin, gap.end, std::string(text.substr(first, byte - first))});
  };
  for (const CharacterSpan& passage : passages) {
    if (passage.begin > position) add(passage.begin);
    if (passage.end > position) move_to(passage.end);
  }
  if (characters > position) add(characters);
  return gaps;
}

/// The characters of a span with the gaps as they were, out of those that the index has.
std::string with_gaps(std::string_view stored, CharacterSpan span, std::span<const Gap> gaps) {
  std::string text;
  std::size_t byte = 0;
  const auto take = [&](std::string& to, std::int64_t characters) {
    const std::size_t end = skip(stored, byte, characters);
    to += stored.substr(byte, end - byte);
    byte = end;
  };
  std::int64_t position = span.begin;
  const auto first = std::ranges::upper_bound(gaps, position, {}, &Gap::end);
  for (auto gap = first; gap != gaps.end() && gap->begin < span.end; ++gap) {
    take(text, gap->begin - position);
    position = std::max(position, gap->begin);
    const std::int64_t end = std::min(span.end, gap->end);
    const std::size_t from = skip(gap->text, 0, position - gap->begin);
    text += std::string_view(gap->text).substr(from, skip(gap->text, from, end - position) - from);
    std::string ignored;
    take(ignored, end - position);
    position = end;
  }
  take(text, span.end - position);
  return text;
}

/// The longest passages up to 128 tokens that the model takes.
SearchOptions options_for(const Embedder& embedder) {
  EmbedOptions document;
  document.prompt_name = "document";
  const std::string prompt = embedder.prompt(document);
  const auto around = std::ssize(embedder.tokenizer().encode(prompt).ids);
  std::int64_t room = embedder.max_length() - around;
  if (embedder.passage_context() == PassageContext::document) room /= 2;
  SearchOptions options;
  options.passages.passage_tokens = std::clamp<std::int64_t>(room, 1, kPassageTokens);
  return options;
}

/// A part of a document has the path of the whole.
std::string with_path(const std::string& metadata, const std::string& path) {
  JsonLine json;
  json.add("path", path);
  // A field "path" of the metadata comes behind it, and counts.
  if (!metadata.empty() && metadata != "{}") json.add_members(metadata);
  return json.object();
}

Failure disk_failure(const Error& error) { return {507, "Backend", error.what()}; }

/// Whether documents of an index have the fields that conditions name.
bool knows(const SearchIndex& index, std::span<const std::string> filter) {
  try {
    index.check(filter);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

/// All members but those that never change need the mutex.
struct Library::Contents {
  struct ReadDocument {
    std::string name, hash, metadata;
    const std::string* text = nullptr;
    std::int64_t characters = 0;
    /// Passages that can be found already.
    std::int64_t passages = 0;
    Progress progress = {};
    bool is_removed = false;
  };
  /// Facts that the index does not keep, of documents that this process has read.
  struct Facts {
    std::int64_t tokens = 0, characters = 0;
    double seconds = 0;
    std::vector<Gap> gaps;
  };

  Contents(const Embedder& with, const std::string& file, const LibraryLimits& most)
      : embedder(with),
        is_in_file(!file.empty()),
        limits(most),
        index(SearchIndex::edit(file, with, options_for(with))),
        parts(with, index.options()) {
    // Files of older programs are read once for it, and no request has to wait.
    index.text_bytes();
  }

  LibraryDocument shown(const IndexedDocument& row) const {
    LibraryDocument document = {.id = id_of(row.name, row.hash),
                                .name = row.name,
                                .characters = row.characters,
                                .passages = row.passages,
                                .metadata = row.metadata};
    if (const auto known = facts.find(document.id); known != facts.end()) {
      document.characters = known->second.characters;
      document.tokens = known->second.tokens;
      document.seconds = known->second.seconds;
    }
    return document;
  }

  /// The document of an id. Throws Failure.
  IndexedDocument find(const std::string& id) {
    if (auto row = looked_up(id)) return *std::move(row);
    // Another process may have changed the file.
    names.clear();
    for (const IndexedDocument& row : index.list())
      names.emplace(id_of(row.name, row.hash), row.name);
    if (auto row = looked_up(id)) return *std::move(row);
    throw Failure(404, "Validation", fmt::format("no document `{}`", id));
  }

  std::optional<IndexedDocument> looked_up(const std::string& id) const {
    const auto name = names.find(id);
    if (name == names.end()) return std::nullopt;
    auto row = index.document(name->second);
    if (row && id_of(row->name, row->hash) != id) row.reset();
    return row;
  }

  /// Throws Failure where a text has no room.
  void check_room(std::size_t bytes) const {
    std::int64_t all = static_cast<std::int64_t>(bytes) + index.text_bytes();
    for (const auto& [id, one] : reading) all += std::ssize(*one.text);
    if (all <= limits.bytes) return;
    throw Failure(413, "Validation",
                  fmt::format("the library is full: expected at most {} bytes of text in all, "
                              "found {} with this document; delete others, or start the server "
                              "with a larger --max-library",
                              limits.bytes, all));
  }

  bool is_taken(const std::string& name) const {
    return index.document(name) ||
           std::ranges::any_of(reading, [&](const auto& one) { return one.second.name == name; });
  }

  /// The name, or the name with a number whose predecessor is taken: found by halves, as there may
  /// be many documents of a name.
  std::string free_name(const std::string& name) const {
    const auto numbered = [&](std::int64_t number) { return fmt::format("{} ({})", name, number); };
    if (!is_taken(name)) return name;
    std::int64_t taken = 1, free = 2;
    while (is_taken(numbered(free))) {
      taken = free;
      free *= 2;
    }
    while (free - taken > 1) {
      const std::int64_t between = taken + (free - taken) / 2;
      (is_taken(numbered(between)) ? taken : free) = between;
    }
    return numbered(free);
  }

  void forget(const std::string& id) {
    if (reading.erase(id) == 0) return;
    parts.remove(id);
    changed.notify_all();
  }

  const Embedder& embedder;
  const bool is_in_file;
  const LibraryLimits limits;

  std::mutex mutex;
  /// A document is read, or nothing comes of it.
  std::condition_variable changed;
  SearchIndex index;
  /// Passages of documents that are being read, under ID/FIRST CHARACTER.
  SearchIndex parts;
  /// Names by the ids that they had when somebody looked.
  std::map<std::string, std::string> names;
  std::map<std::string, ReadDocument> reading;
  std::map<std::string, Facts> facts;
};

/// A document on its way into the index. When it ends, nothing is left but what is in the index.
class Library::Reading {
 public:
  /// The caller holds the mutex.
  Reading(Contents& all, const Upload& upload, const std::string& text_hash)
      : all_(all),
        name_(all.free_name(upload.name)),
        id_(id_of(name_, text_hash)),
        text_(upload.contents.text),
        places_(upload.contents.places),
        metadata_(upload.metadata) {
    all_.reading[id_] = {.name = name_,
                         .hash = text_hash,
                         .metadata = metadata_,
                         .text = &text_,
                         .characters = characters_of(text_)};
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// The caller does not hold the mutex.
  ~Reading() {
    const std::lock_guard lock(all_.mutex);
    try {
      all_.forget(id_);
    } catch (const Error&) {
      // The index in memory has no memory for its change: its passages are found a while longer.
    }
  }

  LibraryDocument read(const ReadingCallback& callback) {
    callback_ = &callback;
    const Clock::time_point begin = Clock::now();
    const EncodeOptions plain = [] {
      EncodeOptions options;
      options.add_special_tokens = false;
      return options;
    }();
    progress_.documents_total = 1;
    progress_.tokens_total = std::ssize(all_.embedder.tokenizer().encode(text_, plain).ids);
    report(0);
    PassageVectors passages = read_parts();
    if (passages.dense.rows == 0) throw Failure(400, "Empty", "`text` has no words");
    const std::int64_t characters = characters_of(text_);
    std::vector<Gap> gaps = gaps_of(text_, passages.dense.spans, characters);
    const std::lock_guard lock(all_.mutex);
    check_removed();
    try {
      const PreparedDocument whole = {.name = name_,
                                      .text = text_,
                                      .passages = std::move(passages),
                                      .metadata = metadata_,
                                      .places = places_};
      all_.index.put({&whole, 1});
    } catch (const Error& error) {
      throw disk_failure(error);
    }
    all_.names[id_] = name_;
    all_.facts[id_] = {.tokens = progress_.tokens_total,
                       .characters = characters,
                       .seconds = std::chrono::duration<double>(Clock::now() - begin).count(),
                       .gaps = std::move(gaps)};
    all_.forget(id_);
    return all_.shown(all_.find(id_));
  }

 private:
  PassageVectors read_parts() {
    const Embedder::PassageOptions& how = all_.index.options().passages;
    // A passage in context, or over another one, is not that of a part alone.
    const bool has_parts = how.context == PassageContext::none && !how.overlapping_passages;
    PassageVectors whole;
    std::size_t size = has_parts ? kFirstPart : text_.size();
    for (std::size_t begin = 0; begin < text_.size();) {
      std::size_t end = std::min(text_.size(), begin + size);
      while (end < text_.size() && is_continuation(text_[end])) ++end;
      const std::string_view part = std::string_view(text_).substr(begin, end - begin);
      const auto progress = [&](const Progress& now) {
        const auto share = static_cast<double>(now.tokens_done) /
                           static_cast<double>(std::max<std::int64_t>(1, now.tokens_total));
        report(static_cast<double>(begin) + share * static_cast<double>(part.size()));
      };
      PassageVectors found =
          all_.index.prepare(all_.embedder, part, progress,
                             pass_tokens(all_.embedder.model(), all_.limits.batch_tokens));
      const bool is_last = end == text_.size();
      if (!is_last && found.dense.rows < 2) {
        size *= 2;
        continue;
      }
      // The part may cut its last passage, which is the first one of the next part.
      if (!is_last) drop_last(found);
      const std::size_t next = is_last ? end : begin + skip(part, 0, found.dense.spans.back().end);
      if (!is_last) show(part, found);
      append(whole, std::move(found));
      first_ += characters_of(part.substr(0, next - begin));
      begin = next;
      size = std::max(size, std::min(2 * size, kLongestPart));
    }
    return whole;
  }

  static void drop_last(PassageVectors& found) {
    Embedding& dense = found.dense;
    const std::size_t width = dense.values.size() / static_cast<std::size_t>(dense.rows);
    dense.values.resize(dense.values.size() - width);
    dense.spans.pop_back();
    --dense.rows;
    if (!found.sparse.empty()) found.sparse.pop_back();
    if (!found.multi.empty()) found.multi.pop_back();
  }

  void append(PassageVectors& whole, PassageVectors part) const {
    whole.dense.rows += part.dense.rows;
    const auto move_to = [](auto& to, auto& from) {
      to.insert(to.end(), std::make_move_iterator(from.begin()),
                std::make_move_iterator(from.end()));
    };
    move_to(whole.dense.values, part.dense.values);
    move_to(whole.sparse, part.sparse);
    move_to(whole.multi, part.multi);
    for (const CharacterSpan& span : part.dense.spans) {
      whole.dense.spans.push_back({span.begin + first_, span.end + first_});
    }
  }

  /// From now on these passages are found.
  void show(std::string_view part, const PassageVectors& passages) {
    const std::lock_guard lock(all_.mutex);
    check_removed();
    const PreparedDocument shown = {.name = fmt::format("{}/{}", id_, first_),
                                    .text = part,
                                    .passages = passages,
                                    .metadata = with_path(metadata_, name_)};
    all_.parts.put({&shown, 1});
    all_.reading.at(id_).passages += passages.dense.rows;
  }

  void report(double bytes) {
    const double share = bytes / static_cast<double>(text_.size());
    const auto done =
        static_cast<std::int64_t>(share * static_cast<double>(progress_.tokens_total));
    progress_.tokens_done = std::max(progress_.tokens_done, done);
    {
      const std::lock_guard lock(all_.mutex);
      check_removed();
      all_.reading.at(id_).progress = progress_;
    }
    if (*callback_) (*callback_)(id_, progress_);
  }

  void check_removed() const {
    if (!all_.reading.at(id_).is_removed) return;
    throw Failure(404, "Validation", "the document was deleted while it was being read");
  }

  Contents& all_;
  const std::string name_, id_;
  const std::string& text_;
  const DocumentPlaces& places_;
  const std::string& metadata_;
  const ReadingCallback* callback_ = nullptr;
  Progress progress_;
  /// The first character of the present part.
  std::int64_t first_ = 0;
};

Library::Library(const Embedder& embedder, const std::string& file, const LibraryLimits& limits)
    : contents_(std::make_unique<Contents>(embedder, file, limits)) {}
Library::~Library() = default;

bool Library::is_in_file() const { return contents_->is_in_file; }

AddedDocument Library::add(const Upload& upload, const ReadingCallback& progress) {
  const std::string& text = upload.contents.text;
  Contents& all = *contents_;
  const std::string text_hash = SearchIndex::hash_of(text);
  std::optional<Reading> reading;
  {
    std::unique_lock lock(all.mutex);
    while (true) {
      if (const auto row = all.index.document_of(text_hash)) {
        if (!upload.metadata.empty() && all.index.describe({{row->name, upload.metadata}}) > 0) {
          return {.document = all.shown(*all.index.document(row->name)), .is_new = false};
        }
        return {.document = all.shown(*row), .is_new = false};
      }
      const auto same = std::ranges::find_if(
          all.reading, [&](const auto& one) { return one.second.hash == text_hash; });
      if (same == all.reading.end()) break;
      const std::string id = same->first;
      const Progress so_far = same->second.progress;
      all.changed.wait_for(lock, kPatience);
      lock.unlock();
      if (progress) progress(id, so_far);
      Interruption::poll();
      lock.lock();
    }
    all.check_room(text.size());
    reading.emplace(all, upload, text_hash);
  }
  return {.document = reading->read(progress), .is_new = true};
}

std::vector<LibraryDocument> Library::list(std::span<const std::string> filter) const {
  const std::lock_guard lock(contents_->mutex);
  std::vector<LibraryDocument> documents;
  for (const IndexedDocument& row : contents_->index.list(filter)) {
    documents.push_back(contents_->shown(row));
  }
  return documents;
}

LibraryDocument Library::find(const std::string& id) const {
  const std::lock_guard lock(contents_->mutex);
  if (const auto found = contents_->reading.find(id); found != contents_->reading.end()) {
    const Contents::ReadDocument& one = found->second;
    return {.id = id,
            .name = one.name,
            .characters = one.characters,
            .passages = one.passages,
            .metadata = one.metadata};
  }
  return contents_->shown(contents_->find(id));
}

void Library::remove(const std::string& id) {
  const std::lock_guard lock(contents_->mutex);
  if (const auto found = contents_->reading.find(id); found != contents_->reading.end()) {
    found->second.is_removed = true;
    return;
  }
  const std::string name = contents_->find(id).name;
  try {
    contents_->index.remove(name);
  } catch (const Error& error) {
    throw disk_failure(error);
  }
  contents_->names.erase(id);
  contents_->facts.erase(id);
}

std::string Library::text(const std::string& id, CharacterSpan& span) const {
  const std::lock_guard lock(contents_->mutex);
  const auto found = contents_->reading.find(id);
  const bool is_read = found == contents_->reading.end();
  const IndexedDocument row = is_read ? contents_->find(id) : IndexedDocument();
  const std::int64_t characters =
      is_read ? contents_->shown(row).characters : found->second.characters;
  span.begin = std::clamp<std::int64_t>(span.begin, 0, characters);
  span.end = std::clamp(span.end, span.begin, characters);
  if (is_read) {
    std::string stored = contents_->index.text(row.name, span);
    const auto known = contents_->facts.find(id);
    return known == contents_->facts.end() ? stored : with_gaps(stored, span, known->second.gaps);
  }
  const std::string_view text = *found->second.text;
  const std::size_t begin = skip(text, 0, span.begin);
  return std::string(text.substr(begin, skip(text, begin, span.end - span.begin) - begin));
}

DocumentPlaces Library::places(const std::string& id) const {
  const std::lock_guard lock(contents_->mutex);
  if (contents_->reading.contains(id)) return {};
  return contents_->index.places(contents_->find(id).name);
}

LibraryHits Library::search(SearchQuery query, std::span<const std::string> ids) const {
  Contents& all = *contents_;
  QuestionVectors vector;
  if (query.mode != SearchMode::lexical) vector = all.index.vectors_of(all.embedder, query);
  const std::lock_guard lock(all.mutex);
  LibraryHits found;
  SearchQuery in_parts = query;
  // A field may be one of documents that are being read, and of no other.
  const bool has_parts = all.parts.passages() > 0 && knows(all.parts, query.filter);
  const bool has_whole = !has_parts || knows(all.index, query.filter);
  for (const std::string& id : std::set<std::string>(ids.begin(), ids.end())) {
    if (const auto one = all.reading.find(id); one != all.reading.end()) {
      found.passages += one->second.passages;
      if (one->second.passages > 0) in_parts.within.push_back(id);
    } else {
      const IndexedDocument row = all.find(id);
      found.passages += row.passages;
      query.within.push_back(row.name);
    }
  }
  if (ids.empty()) found.passages = all.index.passages() + all.parts.passages();
  if (has_whole && (ids.empty() || !query.within.empty())) {
    for (SearchHit& hit : all.index.query(vector, query)) {
      // Another process may have removed it since.
      const auto row = all.index.document(hit.file);
      if (!row) continue;
      found.hits.push_back(
          {.document = id_of(row->name, row->hash), .name = row->name, .hit = std::move(hit)});
    }
  }
  if (has_parts && (ids.empty() || !in_parts.within.empty())) {
    for (SearchHit& hit : all.parts.query(vector, in_parts)) {
      const std::size_t slash = hit.file.find('/');
      const std::string id = hit.file.substr(0, slash);
      const std::int64_t first = std::stoll(hit.file.substr(slash + 1));
      const Contents::ReadDocument& document = all.reading.at(id);
      hit.span = {hit.span.begin + first, hit.span.end + first};
      hit.metadata = document.metadata;
      found.hits.push_back({.document = id, .name = document.name, .hit = std::move(hit)});
    }
    std::ranges::stable_sort(found.hits, std::greater(),
                             [](const LibraryHit& one) { return one.hit.score; });
  }
  if (std::ssize(found.hits) > query.top_k) {
    found.hits.erase(found.hits.begin() + query.top_k, found.hits.end());
  }
  return found;
}

LibraryHits Library::search_texts(const SearchQuery& query,
                                  std::span<const std::string> texts) const {
  SearchIndex index(contents_->embedder, contents_->index.options());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    index.add(contents_->embedder, std::to_string(i), texts[i]);
  }
  LibraryHits found;
  found.passages = index.passages();
  for (SearchHit& hit : index.query(contents_->embedder, query)) {
    std::string document = hit.file;
    found.hits.push_back({.document = std::move(document), .name = {}, .hit = std::move(hit)});
  }
  return found;
}

std::int64_t Library::passages() const {
  const std::lock_guard lock(contents_->mutex);
  return contents_->index.passages();
}

DocumentComparison Library::compare(const std::string& a, const std::string& b) const {
  std::vector<Embedding> sides;
  {
    const std::lock_guard lock(contents_->mutex);
    for (const std::string& id : {a, b}) {
      if (contents_->reading.contains(id)) {
        refuse(fmt::format("document `{}` is still being read", id));
      }
      sides.push_back(contents_->index.vectors(contents_->find(id).name));
    }
  }
  return compare_passages(sides[0], sides[1]);
}

}  // namespace longformer::server
