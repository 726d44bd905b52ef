// Data sets in every format of one file: the first byte chooses it.
#include <algorithm>
#include <array>
#include <set>

#include "fuzzing.h"
#include "tasks/choice/choice_data.h"
#include "tasks/classification/classification_data.h"
#include "tasks/coreference/coreference_data.h"
#include "tasks/coreference/gap/gap_data.h"
#include "tasks/multi_hop/multi_hop_data.h"
#include "tasks/question_answering/question_data.h"
#include "tasks/question_answering/trivia_data.h"
#include "tasks/retrieval/retrieval_data.h"
#include "tasks/tagging/tagging_data.h"

namespace {

/// Mentions are whole words, in order, each once.
void check(const longformer::tasks::CoreferenceExample& example) {
  longformer::Index mentions = 0;
  std::set<longformer::WordSpan> seen;
  for (const longformer::WordCluster& cluster : example.clusters) {
    if (cluster.empty() || !std::is_sorted(cluster.begin(), cluster.end())) std::abort();
    for (const longformer::WordSpan& mention : cluster) {
      const auto words = std::ssize(example.words.words);
      if (mention.first < 0 || mention.last < mention.first || mention.last >= words) std::abort();
      seen.insert(mention);
      ++mentions;
    }
  }
  if (std::ssize(seen) != mentions) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  using fuzzing::expect_result_or_error;
  if (size == 0) return 0;
  constexpr std::array<const char*, 6> kFormats = {"jsonl", "json",     "csv",
                                                   "tsv",   "fasttext", "conll"};
  DataOptions options;
  options.format = kFormats[data[0] % kFormats.size()];
  options.skip_invalid = data[0] >= 128;
  const fuzzing::MemoryFile file(fuzzing::text_of(data + 1, size - 1));
  expect_result_or_error([&] { tasks::read_classification(file.path(), options, {}); });
  expect_result_or_error([&] { tasks::read_tagging(file.path(), options, {}); });
  expect_result_or_error([&] {
    for (const auto& question : tasks::read_questions(file.path(), options).examples) {
      for (const auto& answer : question.answers) {
        if (question.context->find(answer.text) == std::string::npos) std::abort();
      }
    }
  });
  expect_result_or_error([&] {
    for (const auto& choice : tasks::read_choices(file.path(), options).examples) {
      const bool is_known = choice.label != tasks::kNoLabel;
      if (is_known && static_cast<std::size_t>(choice.label) >= choice.question.choices.size()) {
        std::abort();
      }
    }
  });
  expect_result_or_error([&] {
    for (const auto& [query, ranking] : tasks::read_run(file.path())) {
      if (query.empty() || ranking.empty()) std::abort();
    }
  });
  expect_result_or_error([&] { tasks::read_multi_hop(file.path(), options); });
  expect_result_or_error([&] { tasks::read_trivia(file.path(), options); });
  expect_result_or_error([&] {
    for (const auto& example : tasks::read_gap(file.path(), options).examples) {
      // Places are within the text.
      const auto characters = std::ssize(character_starts(example.text)) - 1;
      for (const CharacterSpan& span : {example.pronoun, example.a, example.b}) {
        if (span.begin < 0 || span.end <= span.begin || span.end > characters) std::abort();
      }
    }
  });
  expect_result_or_error([&] {
    const auto read = tasks::read_coreference(file.path(), options);
    for (const auto& example : read.examples) {
      check(example);
      // Written text reads back unchanged.
      const std::string text = tasks::conll_text(example, example.clusters);
      const fuzzing::MemoryFile written(text);
      DataOptions conll;
      conll.format = "conll";
      const auto back = tasks::read_coreference(written.path(), conll);
      if (back.examples.size() != 1) std::abort();
      if (back.examples[0].words.words.size() != example.words.words.size()) std::abort();
    }
  });
  return 0;
}
