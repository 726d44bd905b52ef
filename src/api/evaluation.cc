#include "longformer/evaluation.h"

#include <chrono>

#include "api/document_stream.h"
#include "api/model_implementation.h"
#include "core/error.h"
#include "tasks/evaluation_run.h"

namespace longformer {
namespace {

class LoadedModel final : public tasks::EvaluatedModel {
 public:
  LoadedModel(const Model& model, const Tokenizer& tokenizer, const StreamOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  const models::EncoderConfig& config() const override { return model_.implementation().config; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }

  void stream(const Next& next, const Done& done) const override {
    stream_documents(model_, options_, next, done);
  }

  void with_states(const tasks::TokenRow& row, const Use& use) const override {
    const Model::Implementation& model = model_.implementation();
    models::BatchBuilder builder(model.config);
    builder.add({.ids = row.ids,
                 .types = row.types,
                 .globals = row.global_positions ? std::span<const Index>(*row.global_positions)
                                                 : std::span<const Index>()},
                "document");
    const models::Batch batch = builder.finish();
    const auto turn = model.turn();
    const tasks::Head& head = model.task_head();
    const ops::Context context = model.context();
    use(context, head, model.encoder.forward(context, batch));
  }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  StreamOptions options_;
};

}  // namespace

Evaluation evaluate(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                    const EvaluateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const ModelInfo& info = model.info();
  const tasks::Task* task = model.implementation().task;
  require(task != nullptr, "model: expected a head to evaluate, found none");
  const tasks::ReadingOptions reading = reading_options(model, options);
  tasks::KnownLabels known;
  if (task->has_labels()) known = {tasks::LabelSet(info.labels), info.problem_type};
  const auto data = task->read(path, options.data, known);
  const LoadedModel loaded(model, tokenizer, {.batch_tokens = options.batch_tokens});
  const tasks::EvaluationOptions used = {.data = options.data,
                                         .reading = reading,
                                         .merge = options.merge,
                                         .threshold = options.threshold,
                                         .max_answer_tokens = options.max_answer_tokens,
                                         .no_answer_threshold = options.no_answer_threshold,
                                         .masking = options.masking,
                                         .predictions = options.predictions,
                                         .progress = options.progress};
  tasks::EvaluationRun run(loaded, path, used);
  run.result.task = info.head;
  data->evaluate(run);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  run.result.seconds = seconds.count();
  return std::move(run.result);
}

}  // namespace longformer
