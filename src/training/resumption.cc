#include "training/resumption.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/error.h"
#include "formats/json.h"

namespace longformer::training {
namespace {

using Json = nlohmann::ordered_json;

/// Options that decide the model or the order of its data.
constexpr std::array<std::string_view, 6> kDecidingOptions = {
    "seed",       "per_device_train_batch_size", "group_by_length", "lora_rank", "lora_alpha",
    "lora_target"};
/// Options that may differ without a word.
constexpr std::array<std::string_view, 3> kPlaces = {"output_dir", "overwrite_output_dir",
                                                     "resume_from_checkpoint"};

bool is_among(std::span<const std::string_view> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Throws Error for the first member that differs; `place` names the object that holds it.
void check_same(const Json& before, const Json& now, const std::string& file,
                const std::string& place) {
  if (before == now) return;
  // Objects of the same keys may differ in their order.
  if (before.is_object() && now.is_object()) {
    for (const auto& [key, value] : before.items()) {
      check_same(value, now.contains(key) ? now.at(key) : Json(), file,
                 fmt::format("{}: {}", place, key));
    }
    for (const auto& [key, value] : now.items()) {
      if (!before.contains(key)) check_same({}, value, file, fmt::format("{}: {}", place, key));
    }
    return;
  }
  fail(
      "{}: {}: expected {} as the checkpoint has it, found {}: go on with the same model, "
      "configuration and data, or begin a new training",
      file, place, formats::shown(before), formats::shown(now));
}

}  // namespace

void check_setup(const Json& before, const Json& now, const std::string& file) {
  for (const auto& [key, value] : before.items()) {
    check_same(value, now.contains(key) ? now.at(key) : Json(), file, key);
  }
}

std::vector<std::string> changed_options(const Json& before, const Json& now,
                                         const std::string& file) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : now.items()) {
    if (is_among(kPlaces, key) || !before.contains(key) || before.at(key) == value) continue;
    require(!is_among(kDecidingOptions, key),
            "{}: {}: expected {} as the checkpoint has it, found {}: go on with the same, or "
            "begin a new training",
            file, key, formats::shown(before.at(key)), value.dump());
    changes.push_back(fmt::format("{} is {}, the checkpoint was written with {}", key, value.dump(),
                                  formats::shown(before.at(key))));
  }
  return changes;
}

}  // namespace longformer::training
