#include "training/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/hash.h"
#include "formats/json.h"
#include "formats/option_json.h"

namespace longformer::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kMark = "<!-- written by longformer.cpp ";
constexpr const char* kReadme = "README.md";
constexpr const char* kOther = "model_card.md";

/// Settings that every card names, also where nobody changed them.
constexpr std::array<std::string_view, 8> kAlways = {"seed",
                                                     "learning_rate",
                                                     "num_train_epochs",
                                                     "per_device_train_batch_size",
                                                     "gradient_accumulation_steps",
                                                     "optim",
                                                     "lr_scheduler_type",
                                                     "dtype"};
/// Settings that say nothing about the model.
constexpr std::array<std::string_view, 4> kPlaces = {"output_dir", "overwrite_output_dir",
                                                     "resume_from_checkpoint", "threads"};

template <typename List>
bool has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

/// The text as UTF-8 without control characters, which YAML does not allow and Markdown would
/// misread.
std::string printable(std::string_view text) {
  const std::string quoted =
      Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto valid = Json::parse(quoted).get<std::string>();
  std::string result;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    const auto next = i + 1 < valid.size() ? static_cast<unsigned char>(valid[i + 1]) : 0;
    const bool is_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (is_c1) ++i;
    result += byte < 0x20 || byte == 0x7f || is_c1 ? ' ' : valid[i];
  }
  return result;
}

/// A string of YAML: one of JSON is.
std::string yaml(std::string_view text) { return Json(printable(text)).dump(); }

/// A cell of a table in Markdown.
std::string cell(std::string_view text) {
  std::string result;
  for (const char character : printable(text)) {
    if (std::string_view("|\\`*_[]<>#").find(character) != std::string_view::npos) result += '\\';
    result += character;
  }
  return result;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "–";
}

std::string as_table(std::string_view first, std::string_view second,
                     const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = fmt::format("| {} | {} |\n|---|---|\n", first, second);
  for (const auto& [name, value] : rows)
    text += fmt::format("| {} | {} |\n", cell(name), cell(value));
  return text + "\n";
}

std::string front_matter(const ModelCard& card, const TrainingResult& result) {
  std::string text = "---\n";
  if (!card.library.empty()) text += fmt::format("library_name: {}\n", yaml(card.library));
  if (!card.pipeline.empty()) text += fmt::format("pipeline_tag: {}\n", yaml(card.pipeline));
  // The Hub takes names of its own models alone.
  if (std::ranges::count(card.base, '/') == 1) {
    text += fmt::format("base_model: {}\n", yaml(card.base));
  }
  text += "tags:\n";
  for (const std::string& tag : card.tags) text += fmt::format("- {}\n", yaml(tag));
  std::string metrics;
  for (const auto& [name, value] : result.metrics) {
    if (!std::isfinite(value)) continue;
    // YAML takes 1e-05 for a text.
    const std::string text_of_value = fmt::format("{}", value);
    const bool is_short = text_of_value.find('e') == std::string::npos;
    metrics += fmt::format("    - type: {}\n      name: {}\n      value: {}\n", yaml(name),
                           yaml(name), is_short ? text_of_value : fmt::format("{:.12f}", value));
  }
  if (metrics.empty()) return text + "---\n";
  const std::string task = card.pipeline.empty() ? card.task : card.pipeline;
  text += fmt::format(
      "model-index:\n- name: {}\n  results:\n  - task:\n      type: {}\n    dataset:\n      type: "
      "validation\n      name: validation data of the training\n    metrics:\n{}",
      yaml(card.name), yaml(task.empty() ? card.verb : task), metrics);
  return text + "---\n";
}

/// The value of an option, of a path its last name.
std::string shown(const OptionField& field, const Json& value) {
  const bool is_path = field.type == "FILE" || field.type == "FOLDER";
  if (value.is_string()) {
    return is_path ? public_name(value.get<std::string>()) : value.get<std::string>();
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::pair<std::string, std::string>> settings_of(const OptionFields& options,
                                                             const OptionFields& usual) {
  const Json values = formats::json_of(options), before = formats::json_of(usual);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const OptionField& field : options) {
    const Json& value = values.at(field.name);
    const bool differs = !before.contains(field.name) || before.at(field.name) != value;
    if (has(kPlaces, field.name) || (!differs && !has(kAlways, field.name))) continue;
    rows.emplace_back(field.name, shown(field, value));
  }
  return rows;
}

/// The metrics that stand in the table of epochs: the loss first, and few others.
std::vector<std::string> columns_of(const TrainingResult& result) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> names;
  for (const TrainingEpoch& row : result.epochs) {
    for (const auto& [name, value] : row.metrics) {
      if (!has(names, name) && names.size() < kMost) names.push_back(name);
    }
  }
  return names;
}

std::string epochs_of(const TrainingResult& result) {
  const std::vector<std::string> columns = columns_of(result);
  std::string text = "| epoch | step | training loss |", line = "|---|---|---|";
  for (const std::string& name : columns) {
    text += fmt::format(" {} |", name == "loss" ? "validation loss" : cell(name));
    line += "---|";
  }
  text += " seconds |\n" + line + "---|\n";
  for (const TrainingEpoch& row : result.epochs) {
    text += fmt::format("| {} | {} | {} |", row.epoch ? fmt::format("{:.2f}", *row.epoch) : "–",
                        row.step, number(row.loss));
    for (const std::string& name : columns) {
      const auto found =
          std::ranges::find(row.metrics, name, &std::pair<std::string, double>::first);
      text += fmt::format(" {} |", found == row.metrics.end() ? "" : number(found->second));
    }
    text += fmt::format(" {:.1f} |\n", row.seconds);
  }
  return text + "\n";
}

std::string results_of(const TrainingResult& result) {
  std::string text = "## Results\n\n";
  if (result.best_metric) {
    text += fmt::format("The model is that of step {}. The best {} is {}, after step {}.\n\n",
                        result.model_step, cell(result.metric), number(*result.best_metric),
                        result.best_step);
  } else {
    text += fmt::format("The model is that of step {}; there was no evaluation.\n\n",
                        result.model_step);
  }
  if (result.epochs.empty()) return text;
  return text + epochs_of(result) +
         "Smaller is better for losses, errors and perplexity, larger for all other metrics.\n\n";
}

std::string marked(const std::string& text) {
  return text + fmt::format("{}{}: {:016x} -->\n", kMark, LONGFORMER_VERSION, fnv1a(text));
}

/// Whether the file is a card that nobody has edited since.
bool is_ours(const fs::path& file) {
  if (!fs::is_regular_file(file)) return false;
  const std::string found = formats::read_file(file.string());
  const std::size_t at = found.rfind(kMark);
  if (at == std::string::npos) return false;
  const std::string hash = fmt::format(": {:016x} -->\n", fnv1a(found.substr(0, at)));
  return found.ends_with(hash);
}

}  // namespace

std::string public_name(const std::string& path) {
  constexpr std::string_view kPrefix = "models--", kBetween = "--";
  if (path.empty()) return {};
  fs::path place = path;
  if (place.filename().empty()) place = place.parent_path();
  for (const fs::path& part : place) {
    const std::string name = part.string();
    if (!name.starts_with(kPrefix)) continue;
    const std::size_t between = name.find(kBetween, kPrefix.size());
    if (between == std::string::npos) continue;
    return name.substr(kPrefix.size(), between - kPrefix.size()) + "/" +
           name.substr(between + kBetween.size());
  }
  std::string last = place.filename().string();
  if (last == "." || last == "..") {
    std::error_code failure;
    last = fs::canonical(place, failure).filename().string();
  }
  return last;
}

std::string text_of(const ModelCard& card, const OptionFields& options, const OptionFields& usual,
                    const TrainingResult& result) {
  std::string text = front_matter(card, result);
  text += fmt::format("\n# {}\n\n", cell(card.name));
  const std::string begins =
      card.base.empty() ? "weights that were drawn" : fmt::format("**{}**", cell(card.base));
  text += fmt::format(
      "This model was trained by `longformer {}` of longformer.cpp {}{}. It began as {}.\n\n",
      card.verb, LONGFORMER_VERSION,
      card.task.empty() ? "" : fmt::format(", for the task `{}`", card.task), begins);
  text += "## Data\n\n" + as_table("what", "value", card.data);
  if (!card.labels.empty()) text += as_table("label", "training examples", card.labels);
  text += results_of(result);
  text += "## Settings\n\n" + as_table("option", "value", settings_of(options, usual));
  return text;
}

std::string place_model_card(const fs::path& folder, const std::string& text) {
  if (text.empty()) return {};
  for (const char* name : {kReadme, kOther}) {
    const fs::path file = folder / name;
    if (fs::exists(fs::symlink_status(file)) && !is_ours(file)) continue;
    formats::write_file(file.string(), marked(text));
    if (name == kReadme) return {};
    return fmt::format(
        "{} in '{}' is not one of a training, or was edited, and stays: the model card is {}",
        kReadme, folder.string(), kOther);
  }
  return fmt::format(
      "{} and {} in '{}' are not those of a training, or were edited, and stay: no model card is "
      "written",
      kReadme, kOther, folder.string());
}

}  // namespace longformer::training
