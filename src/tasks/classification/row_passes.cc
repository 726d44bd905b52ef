#include "tasks/classification/row_passes.h"

#include <optional>
#include <utility>

#include "core/error.h"
#include "engine/frame/task.h"
#include "engine/run/finite_results.h"
#include "engine/run/model_implementation.h"
#include "ops/gradients.h"

namespace longformer::tasks {
namespace {

/// Longer passes compute each layer twice rather than keep what it computed.
constexpr Index kMostKept = 8192;

void add_given_row(const Model::Implementation& model, const TokenRow& row,
                   models::BatchBuilder& builder) {
  const std::vector<Index> globals =
      row.global_positions ? *row.global_positions
                           : default_globals(model.config, model.task, row.ids, "document");
  builder.add({.ids = row.ids, .types = row.types, .globals = globals, .edges = row.edges},
              "document");
}

}  // namespace

/// Rows from `first` on that run together.
struct RowPasses::Pass {
  std::size_t first = 0;
  models::Batch batch = {};
  /// [n, E] fp32; empty where no words are given.
  Tensor words = {};
};

Index RowPasses::word_size() const { return model_.implementation().config.embedding_size; }

std::vector<float> RowPasses::words(std::span<const std::int32_t> ids) const {
  const Model::Implementation& model = model_.implementation();
  const Turn turn = model.turn();
  return model.encoder.word_rows(model.context(), ids).to_floats();
}

void RowPasses::in_batches(std::size_t rows, const Make& make,
                           const std::function<void(const Pass&)>& run) const {
  const Model::Implementation& model = model_.implementation();
  std::optional<GivenRow> next;
  for (std::size_t number = 0; number < rows || next;) {
    Pass pass = {.first = number - (next ? 1 : 0)};
    models::BatchBuilder builder(model.config);
    std::vector<float> words;
    while (number < rows || next) {
      if (!next) {
        next = make(number);
        ++number;
      }
      const Index tokens = std::ssize(next->row.ids);
      if (builder.rows() > 0 && builder.rows() + tokens > batch_tokens_) break;
      add_given_row(model, next->row, builder);
      words.insert(words.end(), next->words.begin(), next->words.end());
      next.reset();
    }
    pass.batch = builder.finish();
    if (!words.empty()) pass.words = Tensor::from(words, {pass.batch.rows(), word_size()});
    run(pass);
  }
}

void RowPasses::logits(std::size_t rows, const Make& make, const Take& take) const {
  const Model::Implementation& model = model_.implementation();
  in_batches(rows, make, [&](const Pass& pass) {
    std::vector<std::vector<float>> found;
    {
      Turn turn = model.turn(model.runner.claim_of(pass.batch.rows()));
      turn.computes(pass.batch.rows());
      const ops::Context context = model.context();
      const Tensor hidden = model.encoder.forward(
          context, pass.batch, {.words = pass.words.empty() ? nullptr : &pass.words});
      const Tensor logits = model.logits(context, pass.batch, hidden);
      for (Index i = 0; i < logits.rows(); ++i) {
        found.push_back(logits.slice_rows(i, 1).to_floats());
        require_finite(found.back(), "logits", "");
      }
    }
    if (report_) report_(pass.batch.rows());
    for (std::size_t i = 0; i < found.size(); ++i) take(pass.first + i, std::move(found[i]));
  });
}

void RowPasses::gradients(std::size_t rows, Index label, const Make& make, const Take& take) const {
  const Model::Implementation& model = model_.implementation();
  in_batches(rows, make, [&](const Pass& pass) {
    Tensor words = pass.words;
    Tape::track(words);
    {
      Turn turn = model.turn(model.runner.claim_of(pass.batch.rows()));
      turn.computes(pass.batch.rows());
      Tape tape;
      ops::Context context = model.context();
      context.tape = &tape;
      context.recomputes = pass.batch.rows() > kMostKept;
      const Tensor hidden = model.encoder.forward(context, pass.batch, {.words = &words});
      const Tensor logits = model.logits(context, pass.batch, hidden);
      std::vector<float> seed(static_cast<std::size_t>(logits.size()), 0.0f);
      for (Index i = 0; i < logits.rows(); ++i) {
        seed[static_cast<std::size_t>(i * logits.columns() + label)] = 1;
      }
      ops::send_gradient(context, logits, Tensor::from(seed, logits.shape()));
      tape.backward();
    }
    if (report_) report_(kGradientPasses * pass.batch.rows());
    const Tensor gradient = words.gradient()->take();
    for (Index i = 0; i < pass.batch.documents(); ++i) {
      const auto document = static_cast<std::size_t>(i);
      const Index begin = pass.batch.starts[document];
      std::vector<float> values =
          gradient.slice_rows(begin, pass.batch.starts[document + 1] - begin).to_floats();
      require_finite(values, "gradients", "");
      take(pass.first + document, std::move(values));
    }
  });
}

}  // namespace longformer::tasks
