// Trainings of all folds of a data set, one after another.
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "api/finetune_split.h"
#include "core/error.h"
#include "engine/frame/data_file.h"
#include "formats/json.h"
#include "longformer/finetuning.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

fs::path folder_of(const FinetuneOptions& options, std::int64_t fold) {
  return fs::path(options.training.output_dir) / ("fold-" + std::to_string(fold));
}

/// Metrics that all folds have.
std::vector<MetricSpread> spreads_of(const std::vector<TrainingResult>& folds) {
  std::vector<MetricSpread> spreads;
  if (folds.empty()) return spreads;
  for (const auto& [name, first] : folds.front().metrics) {
    std::vector<double> values;
    for (const TrainingResult& fold : folds) {
      for (const auto& [other, value] : fold.metrics) {
        if (other == name) values.push_back(value);
      }
    }
    if (values.size() != folds.size()) continue;
    MetricSpread spread = {.name = name};
    const auto n = static_cast<double>(values.size());
    for (const double value : values) spread.mean += value / n;
    double squares = 0;
    for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
    spread.deviation = n > 1 ? std::sqrt(squares / (n - 1)) : 0;
    spreads.push_back(std::move(spread));
  }
  return spreads;
}

/// The folds of the cross-validation that a folder holds, as far as it has come; 0 for none.
std::int64_t folds_in(const FinetuneOptions& options) {
  const fs::path folder = options.training.output_dir;
  const auto read = [](const fs::path& file) {
    return fs::exists(file) ? formats::read_json(file.string()) : Json();
  };
  const Json done = read(folder / "folds.json");
  if (done.is_object() && done.contains("folds") && done["folds"].is_array()) {
    return std::ssize(done["folds"]);
  }
  const Json begun = read(folder_of(options, 1) / kSplitFile);
  if (begun.is_object() && begun.contains("folds") && begun["folds"].is_number_integer()) {
    return begun["folds"].get<std::int64_t>();
  }
  std::int64_t folds = 0;
  while (fs::exists(folder_of(options, folds + 1))) ++folds;
  return folds;
}

void check_folder(const FinetuneOptions& options) {
  const std::string& resume = options.training.resume_from_checkpoint;
  require(resume.empty() || resume == "last", OptionName("training.resume_from_checkpoint"),
          "expected last with folds, each of which has checkpoints of its own, found '{}'", resume);
  const std::int64_t folds = folds_in(options);
  const bool is_known = fs::exists(fs::path(options.training.output_dir) / "folds.json") ||
                        fs::exists(folder_of(options, 1) / kSplitFile) || folds > options.folds;
  require(folds == 0 || folds == options.folds || !is_known, OptionName("folds"),
          "expected {}, as the cross-validation in '{}' has, found {}: go on with as many, or name "
          "another folder",
          folds, options.training.output_dir, options.folds);
  require(!fs::exists(fs::path(options.training.output_dir) / "config.json"),
          OptionName("training.output_dir"), "expected a new folder, found a model in '{}'",
          options.training.output_dir);
}

}  // namespace

void check_no_folds(const FinetuneOptions& options) {
  const fs::path folder = options.training.output_dir;
  if (folder.empty()) return;
  const fs::path first = folder_of(options, 1), fold = folder_of(options, options.fold);
  // Written when a training begins.
  constexpr const char* kOptionsFile = "training_args.json";
  const bool has_folds = fs::exists(folder / "folds.json") || fs::exists(first / kOptionsFile) ||
                         (options.fold > 0 && fs::exists(fold / kOptionsFile));
  require(!has_folds, OptionName("training.output_dir"),
          "expected a folder of one training, found the folds of a cross-validation in '{}': name "
          "another folder{}",
          folder.string(),
          options.fold > 0 ? fmt::format(", or {} to train that fold again", fold.string()) : "");
}

CrossValidation cross_validate(const std::string& folder, const FinetuneOptions& given,
                               const CrossValidationCallbacks& callbacks) {
  FinetuneOptions options = given;
  // A pipe, which can be read once, is read for all folds.
  options.data = engine::with_inputs(options.data);
  check_split(options);
  require(options.folds > 0, OptionName("folds"), "expected 2 or more, found none");
  require(options.fold == 0, OptionName("fold"), "expected none, as all are trained, found {}",
          options.fold);
  require(!options.training.output_dir.empty(), OptionName("training.output_dir"),
          "expected a folder, found none");
  check_folder(options);
  CrossValidation result;
  // All folds are of the same data, and so are notes on them.
  FinetuneCallbacks training = callbacks.training;
  training.training.note = [&, told = std::set<std::string>()](const std::string& note) mutable {
    const auto& tell = callbacks.training.training.note;
    if (tell && told.insert(note).second) tell(note);
  };
  for (std::int64_t fold = 1; fold <= options.folds; ++fold) {
    if (callbacks.fold) callbacks.fold(fold);
    FinetuneOptions one = options;
    one.fold = fold;
    const fs::path place = folder_of(options, fold);
    one.training.output_dir = place.string();
    if (!fs::exists(place)) one.training.resume_from_checkpoint.clear();
    TrainingResult trained = finetune(folder, one, training);
    result.interrupted = trained.interrupted;
    if (result.interrupted) break;
    result.folds.push_back(std::move(trained));
  }
  result.metrics = spreads_of(result.folds);
  const Ranks* ranks = callbacks.training.training.ranks;
  if (!result.interrupted && (ranks == nullptr || ranks->rank() == 0)) {
    formats::write_file((fs::path(options.training.output_dir) / "folds.json").string(),
                        to_json(result) + "\n");
  }
  return result;
}

std::string to_json(const CrossValidation& result) {
  Json object = {{"folds", Json::array()}, {"mean", Json::object()}, {"deviation", Json::object()}};
  for (std::size_t i = 0; i < result.folds.size(); ++i) {
    Json metrics = Json::object();
    for (const auto& [name, value] : result.folds[i].metrics) metrics[name] = value;
    object["folds"].push_back(
        {{"fold", i + 1}, {"step", result.folds[i].model_step}, {"metrics", std::move(metrics)}});
  }
  for (const MetricSpread& one : result.metrics) {
    object["mean"][one.name] = one.mean;
    object["deviation"][one.name] = one.deviation;
  }
  return object.dump();
}

}  // namespace longformer
