// Trainings: options in, progress by callback, Ctrl-C writes a checkpoint.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "fetched.h"
#include "interruptible.h"
#include "longformer/checkpoint.h"
#include "longformer/finetuning.h"
#include "longformer/language_model.h"
#include "options.h"
#include "ranks.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

Options dict_of(const std::vector<std::pair<std::string, double>>& metrics) {
  nb::dict dict;
  for (const auto& [name, value] : metrics) dict[name.c_str()] = value;
  return dict;
}

/// Callbacks of a training to Python, and Python's ways to end it. The exception of a signal or of
/// a callback is kept until the step is over and a checkpoint is written; before the first step,
/// and where it is the second one, it ends the work at once.
class Listener {
 public:
  Listener(nb::object callback, nb::object note, std::unique_ptr<PythonRanks> ranks)
      : callback_(std::move(callback)), note_(std::move(note)), ranks_(std::move(ranks)) {}

  TrainingCallbacks callbacks() {
    return {.plan = [this](const TrainingPlan&) { trains_ = true; },
            .progress = [this](const TrainingProgress& progress) { tell(progress); },
            .note = [this](const std::string& text) { call(note_, text); },
            .stop = [this] { return failure_.has_value(); },
            .ranks = ranks_.get()};
  }

  FinetuneCallbacks finetune_callbacks() {
    const auto tell_notes = [this](const FinetuneData& data) {
      for (const std::string& text : data.notes) call(note_, text);
    };
    return {.training = callbacks(), .data = tell_notes, .validation = tell_notes};
  }

  /// Check of without_gil, now and then, for a signal.
  void check() {
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) keep(nb::python_error());
  }

  template <typename Train>
  TrainingResult run(Train&& train) {
    TrainingResult result = without_gil(train, [this] { check(); });
    if (failure_) throw std::move(*failure_);
    if (result.interrupted && ranks_) {
      throw Error(
          fmt::format("ranks: expected all of them to go on, found that another one was stopped "
                      "behind step {}; the same call goes on from the checkpoint '{}'",
                      result.steps, result.last_checkpoint));
    }
    return result;
  }

 private:
  void tell(const TrainingProgress& progress) {
    if (!progress.logged && progress.metrics.empty()) return;
    const nb::gil_scoped_acquire acquire;
    nb::dict step;
    step["step"] = progress.step;
    step["steps"] = progress.steps;
    step["epoch"] =
        progress.epoch ? nb::object(nb::float_(*progress.epoch)) : nb::object(nb::none());
    step["loss"] = progress.loss;
    step["learning_rate"] = progress.learning_rate;
    step["grad_norm"] = progress.gradient_norm;
    step["tokens_per_second"] = progress.tokens_per_second;
    step["seconds_left"] = progress.seconds_left;
    if (!progress.phase.empty()) step["phase"] = progress.phase;
    for (const auto& [name, value] : progress.metrics) step[("eval_" + name).c_str()] = value;
    call(callback_, step);
  }

  template <typename Argument>
  void call(const nb::object& function, const Argument& argument) {
    if (function.is_none()) return;
    const nb::gil_scoped_acquire acquire;
    try {
      function(argument);
    } catch (nb::python_error& error) {
      keep(std::move(error));
    }
  }

  void keep(nb::python_error error) {
    if (!trains_ || failure_) {
      error.restore();
      throw Interrupted();
    }
    failure_.emplace(std::move(error));
  }

  nb::object callback_, note_;
  std::unique_ptr<PythonRanks> ranks_;
  bool trains_ = false;
  std::optional<nb::python_error> failure_;
};

Listener listener_of(Keywords& keywords) {
  nb::object callback = keywords.take_object("callback");
  if (!callback.is_none() && PyCallable_Check(callback.ptr()) == 0) {
    throw nb::type_error("callback: expected a function of a dict");
  }
  nb::object ranks = keywords.take_object("ranks");
  return {std::move(callback), keywords.take_object("note"),
          ranks.is_none() ? nullptr : std::make_unique<PythonRanks>(std::move(ranks))};
}

Options dict_of(const TrainingResult& result) {
  nb::list evaluations;
  for (const EvaluationPoint& one : result.evaluations) {
    nb::dict metrics = dict_of(one.metrics);
    evaluations.append(nb::make_tuple(one.step, metrics));
  }
  nb::list epochs;
  for (const TrainingEpoch& one : result.epochs) {
    nb::dict row = dict_of(one.metrics);
    row["step"] = one.step;
    row["epoch"] = nb::cast(one.epoch);
    row["train_loss"] = one.loss;
    row["seconds"] = one.seconds;
    epochs.append(row);
  }
  nb::dict dict;
  dict["steps"] = result.steps;
  dict["loss"] = result.loss;
  dict["stopped_early"] = result.stopped_early;
  dict["best_metric"] = nb::cast(result.best_metric);
  dict["metric"] = result.metric;
  dict["best_step"] = result.best_step;
  dict["model_step"] = result.model_step;
  dict["model_metrics"] = dict_of(result.metrics);
  dict["epochs"] = epochs;
  dict["last_checkpoint"] = result.last_checkpoint;
  dict["best_checkpoint"] = result.best_checkpoint;
  dict["evaluations"] = evaluations;
  return dict;
}

/// Finds what is wrong with the options before a model is fetched. With validation data there are
/// evaluations.
void check_training(TrainingOptions options, bool has_validation) {
  choose_eval_strategy(options, has_validation);
  check(options);
}

/// Puts folders in the place of the names of an adapter and a teacher. Called without the GIL.
void fetch_models(FinetuneOptions& options) {
  options.training.adapter = fetch_adapter(options.training.adapter);
  std::string& teacher = options.data.embedding.teacher;
  if (!teacher.empty()) teacher = fetch_model(teacher);
}

Options train_task(const Path& folder, const Options& given) {
  FinetuneOptions options;
  Keywords keywords("finetune", given);
  keywords.take("data", options.train_path);
  take_training(keywords, fields(options), options.training);
  Listener listener = listener_of(keywords);
  keywords.finish();
  check_training(options.training, options.has_validation());
  return dict_of(listener.run([&] {
    fetch_models(options);
    return finetune(fetch_model(folder.string()), options, listener.finetune_callbacks());
  }));
}

/// Results of all folds, and the mean and standard deviation of each metric.
Options train_folds(const Path& folder, const Options& given) {
  FinetuneOptions options;
  Keywords keywords("cross_validate", given);
  keywords.take("data", options.train_path);
  take_training(keywords, fields(options), options.training);
  Listener listener = listener_of(keywords);
  keywords.finish();
  CrossValidation found;
  listener.run([&] {
    fetch_models(options);
    found = cross_validate(fetch_model(folder.string()), options,
                           {.training = listener.finetune_callbacks()});
    return TrainingResult();
  });
  nb::list folds;
  for (const TrainingResult& fold : found.folds) folds.append(dict_of(fold));
  nb::dict mean, deviation;
  for (const MetricSpread& one : found.metrics) {
    mean[one.name.c_str()] = one.mean;
    deviation[one.name.c_str()] = one.deviation;
  }
  nb::dict dict;
  dict["folds"] = folds;
  dict["mean"] = mean;
  dict["deviation"] = deviation;
  return dict;
}

Options train_masked(const Path& folder, const Options& given) {
  MaskedLmTraining options;
  Keywords keywords("pretrain_mlm", given);
  keywords.take("files", options.train_files);
  take_training(keywords, fields(options), options.training);
  Listener listener = listener_of(keywords);
  keywords.finish();
  check_training(options.training, !options.validation_file.empty());
  return dict_of(listener.run([&] {
    options.training.adapter = fetch_adapter(options.training.adapter);
    return train_masked_lm(fetch_model(folder.string()), options, listener.callbacks());
  }));
}

Options train_language(const Options& given) {
  LanguageModelTraining options;
  Keywords keywords("pretrain_lm", given);
  keywords.take("model", options.model_folder).take("files", options.data.files);
  take_training(keywords, fields(options), options.training);
  Listener listener = listener_of(keywords);
  keywords.finish();
  check_training(options.training, !options.validation_file.empty());
  return dict_of(listener.run([&] {
    options.training.adapter = fetch_adapter(options.training.adapter);
    if (!options.model_folder.empty()) options.model_folder = fetch_model(options.model_folder);
    return train_language_model(options, listener.callbacks());
  }));
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("finetune", &train_task, "folder"_a, "options"_a);
  module.def("cross_validate", &train_folds, "folder"_a, "options"_a);
  module.def("pretrain_mlm", &train_masked, "folder"_a, "options"_a);
  module.def("pretrain_lm", &train_language, "options"_a);
}

}  // namespace longformer
