#include "tasks/embedding/embedding_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/hash.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

SentenceModules trainable_modules(const std::string& folder) {
  SentenceModules modules = read_sentence_modules(folder);
  for (const VectorModule& module : modules.vector_modules) {
    const auto* dense = std::get_if<DenseModule>(&module);
    require(dense == nullptr,
            "{}: expected pooling, and perhaps Normalize, behind the encoder to train, found a "
            "Dense module, which would stay as it is",
            dense == nullptr ? folder : dense->folder);
  }
  return modules;
}

std::string pooling_name(const SentenceModules& modules) {
  const std::string name = modules.pooling.empty() ? "mean" : modules.pooling;
  const bool known = std::find(kPoolings.begin(), kPoolings.end(), name) != kPoolings.end();
  require(known,
          "{}: pooling_mode: expected one of cls, mean, max, mean_sqrt_len_tokens and "
          "lasttoken, found {}",
          modules.pooling_file, formats::quote(name));
  return name;
}

/// The numbers of the vectors of passages, each of which is at (segment, number in its first row),
/// and of the questions in the rows behind.
void number_vectors(const std::vector<Example>& segments,
                    const std::vector<std::pair<std::size_t, Index>>& passages, ReadVectors& read) {
  std::vector<std::size_t> first, questions;
  std::size_t number = 0;
  for (const Example& segment : segments) {
    first.push_back(number);
    questions.push_back(number + segment.targets[0].embedding->vectors.size());
    for (const DocumentTarget& row : segment.targets) number += row.embedding->vectors.size();
  }
  std::vector<std::size_t> asked(segments.size(), 1);
  for (const auto& [segment, place] : passages) {
    read.passages.push_back(first[segment] + at(place));
    const auto& rows = segments[segment].targets;
    while (asked[segment] < rows.size() &&
           rows[asked[segment]].embedding->vectors[0].answer == place) {
      ++asked[segment];
      read.texts.push_back(questions[segment]++);
    }
  }
}

}  // namespace

bool is_in_document(const EmbeddingExample& example, const EmbeddingTrainingOptions& options) {
  return example.passages || (example.texts.size() == 1 && options.passage_tokens > 0);
}

EmbeddingReader::EmbeddingReader(const CollationSetup& setup, EmbeddingLoss loss)
    : tokenizer_(setup.tokenizer),
      width_(setup.config.last_size()),
      options_(setup.data.embedding),
      loss_(loss),
      modules_(trainable_modules(setup.folder)),
      pooling_(pooling_name(modules_)),
      reading_(setup.reading) {
  const auto prompt = [&](const std::string& name) {
    const auto found = modules_.prompts.find(name);
    const std::string text = found == modules_.prompts.end() ? "" : found->second;
    return read_prompt(tokenizer_, text, modules_.include_prompt);
  };
  query_ = prompt("query");
  document_ = prompt("document");
  plain_ = prompt(modules_.default_prompt_name);
}

EmbeddingTarget EmbeddingReader::target() const {
  return {.takes_largest = pooling_ == "max",
          .divides_by_root = pooling_ == "mean_sqrt_len_tokens",
          .normalizes = modules_.normalizes(),
          .loss = loss_,
          .options = options_};
}

const std::vector<float>& EmbeddingReader::checked(const std::vector<float>& vector) const {
  require(vector.empty() || std::ssize(vector) == width_,
          "expected a teacher's vector of {} numbers, as the model makes, found {}", width_,
          vector.size());
  return vector;
}

void EmbeddingReader::add_text(const std::string& text, const Prompt& prompt, Collator& rows,
                               Example& to) const {
  Reading reading = rows.reader().read(encode_behind(tokenizer_, prompt, text), text);
  Example one = rows.example_of(reading);
  const auto tokens = std::ssize(one.rows[0].ids);
  VectorTarget vector = {.begin = std::min(prompt.skipped_rows, tokens - 1), .end = tokens};
  if (pooling_ == "cls") vector.end = vector.begin + 1;
  if (pooling_ == "lasttoken") vector.begin = vector.end - 1;
  vector.text = fnv1a(text);
  one.targets[0].embedding = target();
  if (!options_.teacher.empty()) vector.teacher_text = text;
  one.targets[0].embedding->vectors = {std::move(vector)};
  to.rows.push_back(std::move(one.rows[0]));
  to.targets.push_back(std::move(one.targets[0]));
}

Example EmbeddingReader::read_texts(const EmbeddingExample& example, Collator& rows) const {
  Example read;
  for (std::size_t i = 0; i < example.texts.size(); ++i) {
    const bool asked = !example.score && example.texts.size() > 1;
    const Prompt& prompt = asked ? (i == 0 ? query_ : document_) : plain_;
    add_text(example.texts[i], prompt, rows, read);
  }
  VectorTarget& first = read.targets[0].embedding->vectors[0];
  if (example.texts.size() > 1) {
    first.answer = 1;
    if (example.score) first.score = *example.score;
  } else if (!example.vector.empty()) {
    first.teacher = checked(example.vector);
    first.teacher_text.clear();
  }
  return read;
}

std::vector<TokenRange> EmbeddingReader::passages_of(const EmbeddingExample& example,
                                                     const Encoding& encoding) const {
  std::vector<TokenRange> passages;
  if (!example.passages) {
    return passages_behind(document_, example.texts[0], encoding,
                           {.tokens = options_.passage_tokens});
  }
  for (const MarkedPassage& passage : *example.passages) {
    passages.push_back(tokens_with(passage.span, encoding));
  }
  return passages;
}

std::vector<Example> EmbeddingReader::read_passages(const EmbeddingExample& example, Collator& rows,
                                                    ReadVectors& read) const {
  const std::string& text = example.texts[0];
  Encoding encoding = encode_behind(tokenizer_, document_, text);
  const std::vector<TokenRange> passages = passages_of(example, encoding);
  const std::vector<CharacterSpan> spans = spans_of(text, encoding, passages);
  ReadingOptions how = reading_;
  how.too_long = TooLong::split;
  how.stride = passage_overlap(how, tokenizer_, passages, kPassageOverlap);
  Reading reading = RowReader(tokenizer_, how).read(std::move(encoding), text);
  std::vector<Example> examples = rows.examples_of(reading);
  for (Example& one : examples) {
    one.targets[0].embedding = target();
    // A passage has no token of its own that a cls model could pool.
    one.targets[0].embedding->divides_by_root = false;
  }
  const auto starts = character_starts(text);
  std::vector<std::pair<std::size_t, Index>> places;
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const std::size_t s = best_segment(reading.ranges, passages[i], reading.read());
    const Index shift = reading.prefix - reading.ranges[s].begin;
    const std::string passage = text_between(text, starts, spans[i]);
    VectorTarget vector = {
        .begin = passages[i].begin + shift, .end = passages[i].end + shift, .text = fnv1a(passage)};
    if (example.passages) vector.teacher = checked((*example.passages)[i].vector);
    if (vector.teacher.empty() && !options_.teacher.empty()) {
      const bool other = example.passages && (*example.passages)[i].target;
      vector.teacher_text = other ? *(*example.passages)[i].target : passage;
    }
    auto& vectors = examples[s].targets[0].embedding->vectors;
    places.emplace_back(s, std::ssize(vectors));
    vectors.push_back(std::move(vector));
  }
  const bool asked = example.passages && loss_ != EmbeddingLoss::distillation;
  for (std::size_t i = 0; i < passages.size() && asked; ++i) {
    const auto [segment, number] = places[i];
    for (const std::string& query : (*example.passages)[i].queries) {
      add_text(query, query_, rows, examples[segment]);
      examples[segment].targets.back().embedding->vectors[0].answer = number;
      examples[segment].targets.back().embedding->divides_by_root = false;
    }
  }
  number_vectors(examples, places, read);
  std::erase_if(examples,
                [](const Example& one) { return one.targets[0].embedding->vectors.empty(); });
  return examples;
}

std::vector<Example> EmbeddingReader::read(const EmbeddingExample& example, Collator& rows) const {
  const auto has_teacher = [](const VectorTarget& vector) {
    return !vector.teacher.empty() || !vector.teacher_text.empty();
  };
  const CollationReport& report = rows.report();
  const Index tokens = report.tokens, truncated = report.counts[kTruncatedTokens.name];
  ReadVectors read;
  std::vector<Example> examples;
  if (is_in_document(example, options_)) {
    examples = read_passages(example, rows, read);
  } else {
    examples.push_back(read_texts(example, rows));
    read.texts.resize(example.texts.size());
    std::iota(read.texts.begin(), read.texts.end(), std::size_t{0});
  }
  read.lengths = {.tokens = report.tokens - tokens,
                  .truncated = report.counts[kTruncatedTokens.name] - truncated};
  rows.keep(std::move(read));
  if (loss_ != EmbeddingLoss::distillation) return examples;
  const auto all = examples.size();
  std::erase_if(examples, [&](const Example& one) {
    return std::ranges::none_of(one.targets, [&](const DocumentTarget& row) {
      return std::ranges::any_of(row.embedding->vectors, has_teacher);
    });
  });
  // The numbers are those of all examples.
  if (examples.size() < all) rows.take_kept();
  require(!examples.empty(), {Remedy::teacher}, "expected a teacher's vector to learn, found none");
  return examples;
}

}  // namespace longformer::tasks
