#include "tasks/language_model/phases.h"

#include <algorithm>

#include "core/error.h"
#include "formats/unused_keys.h"

namespace longformer::tasks {
namespace {

constexpr Index kMost = Index{1} << 40;
constexpr Index kMaxLength = Index{1} << 24;

Index required(const formats::ConfigReader& phase, const std::string& key, Index most) {
  phase.check_present(key);
  return phase.integer(key, 0, 1, most);
}

LanguageModelPhase phase_of(const formats::ConfigReader& json,
                            const models::LanguageModelConfig& config,
                            const std::string& usual_name) {
  LanguageModelPhase phase;
  phase.name = json.string("name", usual_name);
  phase.length = required(json, "length", kMaxLength);
  if (config.has_memory()) {
    phase.lengths = config.lengths;
    phase.lengths.segment = phase.length;
    phase.lengths.memory = json.integer("memory_length", config.lengths.memory, 0, kMaxLength);
    if (config.is_compressive()) {
      phase.lengths.compressed =
          json.integer("compressed_memory_length", config.lengths.compressed, 0, kMaxLength);
    }
    models::check(phase.lengths, config, json.name());
  } else if (!config.has_windows()) {
    phase.windows = config.windows;
  } else {
    phase.windows = models::layer_numbers(json, "windows", config.layers, 1);
  }
  json.check_present("learning_rate");
  phase.learning_rate = json.number("learning_rate", 0);
  require(phase.learning_rate > 0, "{}: learning_rate: expected a number above 0, found {}",
          json.name(), phase.learning_rate);
  phase.batch = required(json, "batch", kMaxLength);
  phase.steps = required(json, "steps", kMost);
  phase.warmup_steps = json.integer("warmup_steps", usual_warmup(phase.steps), 0, phase.steps);
  formats::refuse_unused_keys(json);
  return phase;
}

}  // namespace

Index usual_warmup(Index steps) { return std::min<Index>((steps + 9) / 10, 10000); }

std::vector<LanguageModelPhase> read_phases(const std::string& path,
                                            const models::LanguageModelConfig& config) {
  const nlohmann::ordered_json list = formats::read_json(path);
  require(list.is_array() && !list.empty(), "{}: expected a list of phases, found {}", path,
          formats::shown(list));
  std::vector<LanguageModelPhase> phases;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("phase {}", i + 1);
    const formats::ConfigReader reader(list[i], fmt::format("{}: {}", path, name));
    phases.push_back(phase_of(reader, config, name));
  }
  return phases;
}

}  // namespace longformer::tasks
