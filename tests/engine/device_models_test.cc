// Models on a device of OpenCL: the fixtures that `transformers` wrote, with the outputs that it
// computed (tests/fixtures/make_models.py), against these and against the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "encoder_goldens.h"
#include "engine/run/model_implementation.h"
#include "error_testing.h"
#include "fixtures.h"
#include "longformer/analysis.h"
#include "longformer/language_model.h"
#include "longformer/model.h"
#include "opencl_testing.h"

namespace longformer::device_models_test {
namespace {

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

constexpr const char* kNoDevice = "no device of OpenCL (tools/packages.sh opencl)";

/// Largest difference over the rows that the mask keeps; NaN for different sizes or a NaN.
double difference(const std::vector<float>& a, const std::vector<float>& b,
                  const std::vector<std::int32_t>& mask) {
  if (a.size() != b.size() || (!a.empty() && a.size() % mask.size() != 0)) return NAN;
  const std::size_t width = std::max<std::size_t>(a.size() / mask.size(), 1);
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (mask[i / width] == 0) continue;
    const double here = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(here <= largest)) largest = here;
  }
  return largest;
}

/// Beginnings of the names of folders that devices refuse.
const std::set<std::string> kRefused = {"tiny_deberta", "tiny_funnel", "tiny_reformer"};

bool is_refused(const std::string& name) {
  return std::ranges::any_of(kRefused,
                             [&](const std::string& begin) { return name.starts_with(begin); });
}

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures_folder())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("tiny_") || name.find("multi_hop") != std::string::npos) continue;
    if (!std::filesystem::exists(entry.path() / "expected.safetensors")) continue;
    const std::vector<Golden> cases = goldens(name);
    const bool has_states = std::ranges::none_of(
        cases, [](const Golden& golden) { return golden.last_hidden_state.empty(); });
    if (has_states && !cases.empty()) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

class DeviceModels : public testing::TestWithParam<std::string> {};

TEST_P(DeviceModels, EqualTransformersAndTheCpu) {
  if (!kernels::has_opencl()) GTEST_SKIP() << kNoDevice;
  const std::vector<Golden> cases = goldens(GetParam());
  const LoadOptions options = {.device = "opencl"};
  if (is_refused(GetParam())) {
    const std::string error = error_of([&] { Model::load(fixture(GetParam()), options); });
    EXPECT_NE(error.find("expected a model on the CPU"), std::string::npos) << error;
    return;
  }
  const Model here = Model::load(fixture(GetParam())),
              there = Model::load(fixture(GetParam()), options);
  std::vector<DocumentInput> inputs;
  for (const Golden& golden : cases) inputs.push_back(golden.input());
  // The separator of a pair, which some heads ask for, is not in every input.
  bool has_head = true;
  try {
    here.forward(inputs);
  } catch (const Error&) {
    has_head = false;
  }
  const ForwardOptions pass = {.head = has_head, .hidden_states = true};
  const auto expected = here.forward(inputs, pass), found = there.forward(inputs, pass);
  double from_golden = 0, from_cpu = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [a, b] = std::tie(expected[i], found[i]);
    const std::vector<std::int32_t> all(inputs[i].ids.size(), 1);
    const auto& mask = cases[i].mask.empty() ? all : cases[i].mask;
    const double golden = difference(b.last_hidden_state, cases[i].last_hidden_state, mask);
    EXPECT_TRUE(golden <= 1e-4) << i << ": " << golden;
    const double states = difference(a.last_hidden_state, b.last_hidden_state, mask);
    EXPECT_TRUE(states <= 1e-4) << i << ": " << states;
    ASSERT_EQ(a.hidden_states.size(), b.hidden_states.size());
    for (std::size_t layer = 0; layer < a.hidden_states.size(); ++layer) {
      EXPECT_TRUE(difference(a.hidden_states[layer], b.hidden_states[layer], mask) <= 1e-4);
    }
    for (const auto& [left, right] :
         {std::pair(a.logits, b.logits), std::pair(a.start_logits, b.start_logits),
          std::pair(a.end_logits, b.end_logits), std::pair(a.pooler_output, b.pooler_output)}) {
      const bool is_of_tokens = left.size() % mask.size() == 0 && !left.empty();
      EXPECT_TRUE(difference(left, right, is_of_tokens ? mask : std::vector{1}) <= 1e-4) << i;
    }
    from_golden = std::max(from_golden, golden);
    from_cpu = std::max(from_cpu, states);
  }
  std::printf("  %s: %.1e from transformers, %.1e from the CPU\n", GetParam().c_str(), from_golden,
              from_cpu);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceModels, testing::ValuesIn(folders()),
                         [](const auto& folder) { return folder.param; });

TEST(DeviceModels, OtherWaysOfComputingAreRefused) {
  if (!kernels::has_opencl()) GTEST_SKIP() << kNoDevice;
  const std::string folder = fixture("tiny_longformer");
  EXPECT_EQ(error_of([&] { Model::load(folder, {.dtype = "bf16", .device = "opencl"}); }),
            "dtype: expected fp32 on a device, found bf16");
  EXPECT_EQ(error_of([&] { Model::load(folder, {.device = "cuda"}); }),
            "device: expected cpu, opencl or opencl:N, found \"cuda\"");
  EXPECT_EQ(error_of([&] { Model::load(folder, {.device = "opencl:77"}); }).substr(0, 29),
            "device: expected opencl:0 to ");
  EXPECT_EQ(error_of([&] { Model::load(fixture("tiny_led"), {.device = "opencl"}); }),
            "device: expected cpu for a led, an encoder with a decoder, found opencl");
  EXPECT_EQ(error_of([&] { Model::load(folder, {.device = "opencl", .layers = shared_layers()}); }),
            "device: expected cpu for models that share their layers, found opencl");
  EXPECT_EQ(
      error_of([&] { GradientModel::load(fixture("tiny_longformer_qa"), {.device = "opencl"}); }),
      "device: expected cpu for training and gradients, found opencl");
  EXPECT_EQ(
      error_of([&] { LanguageModel::load(fixture("character_lm/tied"), {.device = "opencl"}); }),
      "device: expected cpu for a character language model, found opencl");
}

TEST(DeviceModels, ACpuIsTold) {
  if (!kernels::has_opencl()) GTEST_SKIP() << kNoDevice;
  std::vector<std::string> notes;
  const LoadOptions options = {.device = "opencl",
                               .note = [&](const std::string& note) { notes.push_back(note); }};
  const Model model = Model::load(fixture("tiny_longformer"), options);
  const bool is_cpu = devices()[0].kind == "CPU";
  ASSERT_EQ(notes.size(), is_cpu ? 1 : 0);
  EXPECT_EQ(is_cpu ? notes[0].substr(0, 15) : "device opencl: ", "device opencl: ");
}

}  // namespace
}  // namespace longformer::device_models_test
