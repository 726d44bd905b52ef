// The models of tests/fixtures/pattern_lm, and what PyTorch computes with them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "memory_lm_testing.h"
#include "text/characters.h"

namespace longformer::models::pattern_lm_test {

using Json = nlohmann::ordered_json;

inline const std::string kText = "the quick brown fox jumps over the lazy dog and runs away ";

inline std::string folder_of(const std::string& name) {
  return (fixtures_folder() / "pattern_lm" / name).string();
}

inline LanguageModelConfig parsed(const Json& json) {
  return parse_language_model(formats::ConfigReader(json, "config.json"));
}

struct Text {
  std::vector<std::int32_t> ids, labels;
};
inline Text text_of(const std::string& characters) {
  const auto all = text::encode_characters(text::Alphabet::text8, characters);
  return {{all.begin(), all.end() - 1}, {all.begin() + 1, all.end()}};
}

struct Loaded {
  explicit Loaded(const std::string& name, bool trained = false)
      : weights(trained ? Weights::trained(Weights::open(folder_of(name), {}), {})
                        : Weights::open(folder_of(name), {})),
        model(read_language_model(folder_of(name) + "/config.json"), weights, DType::f32),
        expected(formats::SafetensorsFile::open(folder_of(name) + "/expected.safetensors")) {}

  ops::Context context(int threads = 2) { return {.memory = memory, .threads = threads}; }
  Doubles wanted(const std::string& name) const {
    return doubles(expected.tensors().at(name).to_floats());
  }

  MemoryPool memory;
  Weights weights;
  LanguageModel model;
  formats::SafetensorsFile expected;
};

}  // namespace longformer::models::pattern_lm_test
