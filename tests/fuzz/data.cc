// Data sets in every format of one file: the first byte chooses it.
#include <array>

#include "fuzzing.h"
#include "tasks/data/choice_data.h"
#include "tasks/data/classification_data.h"
#include "tasks/data/question_data.h"
#include "tasks/data/tagging_data.h"

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
  expect_result_or_error([&] { tasks::read_tagging(file.path(), options, std::nullopt); });
  expect_result_or_error([&] {
    for (const auto& question : tasks::read_questions(file.path(), options).examples) {
      for (const auto& answer : question.answers) {
        if (question.context->find(answer.text) == std::string::npos) std::abort();
      }
    }
  });
  expect_result_or_error([&] {
    for (const auto& choice : tasks::read_choices(file.path(), options).examples) {
      if (static_cast<std::size_t>(choice.label) >= choice.question.choices.size()) std::abort();
    }
  });
  return 0;
}
