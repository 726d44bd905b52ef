// Inputs of fixtures and what `transformers` made of them (tests/fixtures/make_models.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fixtures.h"
#include "formats/safetensors.h"
#include "longformer/model.h"

namespace longformer {

/// An input of a fixture; outputs that its file does not have are empty.
class Golden {
 public:
  Golden(const formats::SafetensorsFile& file, int index)
      : ids(integers(file, index, "input_ids")),
        mask(integers(file, index, "attention_mask")),
        types(integers(file, index, "token_type_ids")),
        global(integers(file, index, "global_attention_mask")),
        last_hidden_state(floats(file, index, "last_hidden_state")),
        pooler_output(floats(file, index, "pooler_output")),
        logits(floats(file, index, "logits")),
        start(floats(file, index, "start_logits")),
        end(floats(file, index, "end_logits")) {}

  DocumentInput input() const {
    return {.ids = ids,
            .attention_mask = mask,
            .token_type_ids = types,
            .position_ids = {},
            .global_attention_mask = global};
  }

  std::vector<std::int32_t> ids, mask, types, global;
  std::vector<float> last_hidden_state, pooler_output, logits, start, end;

 private:
  static const Tensor* find(const formats::SafetensorsFile& file, int index, const char* key) {
    const auto found = file.tensors().find(std::to_string(index) + "." + key);
    return found == file.tensors().end() ? nullptr : &found->second;
  }
  static std::vector<std::int32_t> integers(const formats::SafetensorsFile& file, int index,
                                            const char* key) {
    const Tensor* tensor = find(file, index, key);
    if (tensor == nullptr) return {};
    const auto* data = tensor->data<std::int32_t>();
    return {data, data + tensor->size()};
  }
  static std::vector<float> floats(const formats::SafetensorsFile& file, int index,
                                   const char* key) {
    const Tensor* tensor = find(file, index, key);
    return tensor == nullptr ? std::vector<float>() : tensor->to_floats();
  }
};

/// All of the fixture of this name.
inline std::vector<Golden> goldens(const std::string& name) {
  const auto file =
      formats::SafetensorsFile::open((fixtures_folder() / name / "expected.safetensors").string());
  std::vector<Golden> cases;
  for (int i = 0; file.tensors().contains(std::to_string(i) + ".input_ids"); ++i) {
    cases.emplace_back(file, i);
  }
  return cases;
}

}  // namespace longformer
