#include "longformer/search.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "core/error.h"
#include "core/finite.h"
#include "formats/json.h"

namespace longformer {
namespace {

constexpr std::string_view kAnyMagic = "longformer-index-";
constexpr std::string_view kMagic = "longformer-index-2\n";

/// Appends numbers and texts to a byte string.
class Writer {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  template <typename T>
  void list(const std::vector<T>& values) {
    number<std::uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads them back; every length is checked against what is left.
class Reader {
 public:
  Reader(std::string_view bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  std::string_view take(std::uint64_t size) {
    require(size <= bytes_.size(), "{}: expected {} more bytes of a search index, found {}", file_,
            size, bytes_.size());
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> list() {
    const auto count = number<std::uint64_t>();
    require(count <= bytes_.size() / sizeof(T), "{}: expected at most {} elements, found {}", file_,
            bytes_.size() / sizeof(T), count);
    std::vector<T> values(count);
    const std::string_view data = take(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), data.data(), data.size());
    return values;
  }
  std::string text() { return std::string(take(number<std::uint64_t>())); }
  bool done() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  std::string file_;
};

/// The options that make passage vectors and questions comparable.
EmbedOptions unit_vectors(const std::optional<std::string>& prompt, const char* prompt_name) {
  EmbedOptions options;
  options.normalize = true;
  options.prompt = prompt;
  options.prompt_name = prompt_name;
  return options;
}

bool overlaps(const CharacterSpan& a, const CharacterSpan& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

SearchIndex::SearchIndex(const Embedder& embedder, const SearchOptions& options)
    : options_(options),
      embedding_size_(embedder.embedding_size()),
      fingerprint_(embedder.fingerprint()) {
  options_.passages.context = options.passages.context.value_or(embedder.passage_context());
  options_.passage_prompt = embedder.prompt(unit_vectors(options.passage_prompt, "document"));
}

SearchIndex SearchIndex::load(const std::string& file, const Embedder& embedder) {
  const std::string bytes = formats::read_file(file);
  Reader reader(bytes, file);
  require(std::string_view(bytes).starts_with(kAnyMagic),
          "{}: expected a search index, found another kind of file", file);
  require(std::string_view(bytes).starts_with(kMagic),
          "{}: expected a search index of this version, found one of another; make it anew", file);
  reader.take(kMagic.size());
  SearchIndex index(embedder);
  const auto fingerprint = reader.number<std::uint64_t>();
  const auto size = reader.number<std::int64_t>();
  require(fingerprint == index.fingerprint_ && size == index.embedding_size_,
          "{}: expected an index of this model, found one of other weights (vectors of {}); make "
          "it anew",
          file, size);
  Embedder::PassageOptions& passages = index.options_.passages;
  passages.passage_tokens = reader.number<std::int64_t>();
  passages.overlap_tokens = reader.number<std::int64_t>();
  passages.overlapping_passages = reader.number<std::uint8_t>() != 0;
  const bool in_document = reader.number<std::uint8_t>() != 0;
  passages.context = in_document ? PassageContext::document : PassageContext::none;
  index.options_.passage_prompt = reader.text();
  const auto count = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    Document document;
    document.name = reader.text();
    document.text = reader.text();
    document.spans = reader.list<CharacterSpan>();
    document.vectors = reader.list<float>();
    const auto characters = static_cast<std::int64_t>(character_starts(document.text).size()) - 1;
    for (const CharacterSpan& span : document.spans) {
      require(span.begin >= 0 && span.begin <= span.end && span.end <= characters,
              "{}: document {}: expected passages inside {} characters, found {} to {}", file,
              document.name, characters, span.begin, span.end);
    }
    require(document.vectors.size() == document.spans.size() * static_cast<std::size_t>(size),
            "{}: document {}: expected {} passage vectors, found {} numbers", file, document.name,
            document.spans.size(), document.vectors.size());
    require(all_finite(document.vectors), "{}: document {}: expected finite vectors, found others",
            file, document.name);
    index.documents_.push_back(std::move(document));
  }
  require(reader.done(), "{}: expected the end of the index, found more bytes", file);
  return index;
}

void SearchIndex::save(const std::string& file) const {
  Writer writer;
  writer.number(fingerprint_);
  writer.number(embedding_size_);
  const Embedder::PassageOptions& passages = options_.passages;
  writer.number(passages.passage_tokens);
  writer.number(passages.overlap_tokens);
  writer.number<std::uint8_t>(passages.overlapping_passages ? 1 : 0);
  writer.number<std::uint8_t>(passages.context == PassageContext::document ? 1 : 0);
  writer.text(options_.passage_prompt.value_or(""));
  writer.number<std::uint64_t>(documents_.size());
  for (const Document& document : documents_) {
    writer.text(document.name);
    writer.text(document.text);
    writer.list(document.spans);
    writer.list(document.vectors);
  }
  formats::write_file(file, std::string(kMagic) + writer.bytes());
}

void SearchIndex::add(const Embedder& embedder, const std::string& name, std::string text,
                      const ProgressCallback& progress) {
  Embedding passages = embedder.embed_passages(
      text, options_.passages, unit_vectors(options_.passage_prompt, "document"), progress);
  std::erase_if(documents_, [&](const Document& document) { return document.name == name; });
  documents_.push_back(
      {name, std::move(text), std::move(passages.spans), std::move(passages.values)});
}

bool SearchIndex::contains(const std::string& name, std::string_view text) const {
  return std::any_of(documents_.begin(), documents_.end(), [&](const Document& document) {
    return document.name == name && document.text == text;
  });
}

std::int64_t SearchIndex::documents() const { return static_cast<std::int64_t>(documents_.size()); }

std::int64_t SearchIndex::passages() const {
  std::size_t count = 0;
  for (const Document& document : documents_) count += document.spans.size();
  return static_cast<std::int64_t>(count);
}

std::vector<SearchHit> SearchIndex::query(const Embedder& embedder, const std::string& question,
                                          std::int64_t top_k,
                                          const std::optional<std::string>& prompt) const {
  require(top_k >= 1, "top-k: expected at least 1, found {}", top_k);
  const std::vector<float> wanted =
      embedder.embed({&question, 1}, unit_vectors(prompt, "query"))[0].values;
  struct Candidate {
    float score;
    std::size_t document, passage;
  };
  std::vector<Candidate> candidates;
  for (std::size_t d = 0; d < documents_.size(); ++d) {
    for (std::size_t p = 0; p < documents_[d].spans.size(); ++p) {
      const float* vector = documents_[d].vectors.data() + p * wanted.size();
      candidates.push_back({std::inner_product(wanted.begin(), wanted.end(), vector, 0.0f), d, p});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  std::vector<SearchHit> hits;
  for (const Candidate& candidate : candidates) {
    if (static_cast<std::int64_t>(hits.size()) == top_k) break;
    const Document& document = documents_[candidate.document];
    const CharacterSpan span = document.spans[candidate.passage];
    const bool shown = std::any_of(hits.begin(), hits.end(), [&](const SearchHit& hit) {
      return hit.file == document.name && overlaps(hit.span, span);
    });
    if (shown) continue;
    const auto starts = character_starts(document.text);
    const std::size_t from = starts[static_cast<std::size_t>(span.begin)];
    const std::size_t to = starts[static_cast<std::size_t>(span.end)];
    hits.push_back({document.name, span, candidate.score, document.text.substr(from, to - from)});
  }
  return hits;
}

}  // namespace longformer
