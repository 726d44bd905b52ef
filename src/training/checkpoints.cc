#include "training/checkpoints.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/words.h"
#include "formats/json.h"
#include "formats/new_folder.h"
#include "training/evaluations.h"

namespace longformer::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "checkpoint-";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// A checkpoint, a model or a file of this room under its temporary name: NAME.tmp and a number.
bool is_leftover(std::string_view name) {
  constexpr std::string_view kEnding = ".tmp";
  const std::size_t at = name.rfind(kEnding);
  if (at == std::string_view::npos || !is_number(name.substr(at + kEnding.size()))) return false;
  const std::string_view whole = name.substr(0, at);
  return whole == "model" || whole == "log.jsonl" || whole.ends_with(".json") ||
         whole == "README.md" || whole == "model_card.md" ||
         (whole.starts_with(kPrefix) && is_number(whole.substr(kPrefix.size())));
}

/// The step in the name of a checkpoint folder.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto step = parsed_number<std::int64_t>(std::string_view(name).substr(kPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

}  // namespace

Json to_json(const TrainerState& state) {
  Json object = {{"global_step", state.step},
                 {"num_input_tokens_seen", state.tokens},
                 {"micro_batches", state.micro_batches},
                 {"phase", state.phase},
                 {"phase_step", state.phase_step},
                 {"phase_epoch", state.epoch},
                 {"epoch_micro_batches", state.epoch_micro_batches},
                 {"micro_batches_per_epoch", state.micro_batches_per_epoch},
                 {"unlogged_loss", state.unlogged_loss},
                 {"unlogged_steps", state.unlogged_steps},
                 {"best_metric", state.best_metric ? Json(*state.best_metric) : Json()},
                 {"best_global_step", state.best_step},
                 {"evaluations_without_gain", state.evaluations_without_gain},
                 {"epochs", to_json(state.epochs)},
                 {"open_epoch_loss", state.open_epoch.loss},
                 {"open_epoch_seconds", state.open_epoch.seconds},
                 {"open_epoch_steps", state.open_epoch_steps},
                 {"finished_steps", state.finished_steps},
                 {"setup", state.setup},
                 {"optimizer_steps", state.optimizer_steps}};
  object["log_history"] = state.log_history;
  return object;
}

TrainerState trainer_state_from_json(const Json& object, const std::string& file) {
  const formats::ConfigReader reader(object, file);
  const auto count = [&](const char* key) {
    reader.check_present(key);
    return reader.integer(key, 0, 0, std::numeric_limits<std::int64_t>::max());
  };
  TrainerState state{.step = count("global_step"),
                     .tokens = count("num_input_tokens_seen"),
                     .micro_batches = count("micro_batches"),
                     .phase = count("phase"),
                     .phase_step = count("phase_step"),
                     .epoch = count("phase_epoch"),
                     .epoch_micro_batches = count("epoch_micro_batches"),
                     .micro_batches_per_epoch = count("micro_batches_per_epoch"),
                     .unlogged_loss = reader.number("unlogged_loss", 0),
                     .unlogged_steps = count("unlogged_steps"),
                     .best_step = count("best_global_step"),
                     .evaluations_without_gain = count("evaluations_without_gain")};
  // Checkpoints of before have none: they are taken for those of a training that has ended.
  state.finished_steps =
      reader.integer("finished_steps", state.step, 0, std::numeric_limits<std::int64_t>::max());
  if (reader.has("setup")) state.setup = reader.at("setup");
  if (reader.has("epochs")) state.epochs = epochs_from_json(reader.at("epochs"), file);
  state.open_epoch.loss = reader.number("open_epoch_loss", 0);
  state.open_epoch.seconds = reader.number("open_epoch_seconds", 0);
  state.open_epoch_steps =
      reader.integer("open_epoch_steps", 0, 0, std::numeric_limits<std::int64_t>::max());
  if (reader.has("best_metric")) state.best_metric = reader.number("best_metric", 0);
  const formats::ConfigReader steps(reader.at("optimizer_steps"), file + ": optimizer_steps");
  for (const auto& [name, value] : steps.object().items()) {
    state.optimizer_steps[name] =
        steps.integer(name, 0, 0, std::numeric_limits<std::int64_t>::max());
  }
  const Json& history = reader.at("log_history");
  require(history.is_array(), "{}: log_history: expected a list, found {}", file,
          formats::shown(history));
  state.log_history.assign(history.begin(), history.end());
  return state;
}

fs::path Checkpoints::folder(std::int64_t step) const {
  return output_dir_ / fmt::format("{}{}", kPrefix, step);
}

std::vector<std::int64_t> Checkpoints::steps() const {
  std::vector<std::int64_t> steps;
  if (!fs::is_directory(output_dir_)) return steps;
  for (const auto& entry : fs::directory_iterator(output_dir_)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && fs::exists(entry.path() / kStateFile)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void Checkpoints::write(std::int64_t step, const std::function<void(const fs::path&)>& fill) const {
  const auto failed = [&](const char* reason) {
    const std::vector<std::int64_t> good = steps();
    const std::string last =
        good.empty() ? "there is no earlier one"
                     : fmt::format("the last good one is {}", folder(good.back()).string());
    fail("checkpoint of step {} could not be written: {}; {}", step, reason, last);
  };
  try {
    remove(step);
    const formats::NewFolder staging(folder(step));
    fill(staging.path());
    staging.commit();
  } catch (const Error& error) {
    failed(error.what());
  } catch (const fs::filesystem_error& error) {
    failed(error.what());
  }
}

void Checkpoints::prune(std::int64_t limit, std::int64_t kept) const {
  if (limit == 0) return;
  std::vector<std::int64_t> all = steps();
  std::erase(all, kept);
  for (std::size_t i = 0; i + static_cast<std::size_t>(limit) < all.size(); ++i) remove(all[i]);
}

void Checkpoints::remove_all() const {
  for (const std::int64_t step : steps()) remove(step);
}

void Checkpoints::remove(std::int64_t step) const {
  const fs::path name = folder(step);
  if (!fs::exists(name)) return;
  const fs::path temporary = formats::temporary_name(name);
  fs::remove_all(temporary);
  fs::rename(name, temporary);
  fs::remove_all(temporary);
}

void Checkpoints::remove_leftovers() const {
  if (!fs::is_directory(output_dir_)) return;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(output_dir_)) {
    const std::string name = entry.path().filename().string();
    if (is_leftover(name)) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path);
}

}  // namespace longformer::training
