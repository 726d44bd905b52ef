#include "tasks/embedding/text_embedding.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/frame/split.h"
#include "tasks/embedding/embedding_data.h"
#include "tasks/embedding/embedding_evaluation.h"
#include "tasks/embedding/embedding_reader.h"
#include "tasks/embedding/vector_head.h"

namespace longformer::tasks {
namespace {

EmbeddingLoss loss_of(const EmbeddingData& data, const EmbeddingTrainingOptions& options) {
  const bool taught = data.has_vectors() || !options.teacher.empty();
  const EmbeddingLoss found = data.has_scores()  ? EmbeddingLoss::cosine
                              : data.has_pairs() ? EmbeddingLoss::contrastive
                                                 : EmbeddingLoss::distillation;
  const EmbeddingLoss loss = options.loss.value_or(found);
  switch (loss) {
    case EmbeddingLoss::cosine:
      require(data.has_scores(), "{}: expected pairs with scores for a cosine loss, found none",
              data.path);
      break;
    case EmbeddingLoss::contrastive:
      require(data.has_pairs() || data.has_scores(),
              "{}: expected texts that belong together, found none", data.path);
      break;
    case EmbeddingLoss::triplet:
      for (const EmbeddingExample& one : data.examples) {
        require(!one.passages && one.texts.size() > 2,
                "{}: expected an anchor, a positive and a negative for a triplet loss, found {} "
                "texts",
                place_of(data.path, one.origin), one.texts.size());
      }
      break;
    case EmbeddingLoss::distillation:
      require(taught, {Remedy::teacher},
              "{}: expected texts that belong together, scores, or vectors of a teacher to learn "
              "from, found none of them",
              data.path);
      break;
  }
  return loss;
}

class EmbeddingSet final : public DataSet {
 public:
  EmbeddingSet(EmbeddingData data, const EmbeddingTrainingOptions& options)
      : data_(std::move(data)), options_(options) {}

  bool has_one_class() const override { return false; }
  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override { return embedding_metric_names(data_); }
  Index least_batch() const override;
  bool has_passages() const override;

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      // An anchor, or a document, may have several examples.
      return split_keys({}, one.texts.empty() ? "" : one.texts.front());
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    return engine::split_off(*this, &EmbeddingSet::data_, examples);
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    const EmbeddingReader reader(setup, loss_of(data_, options_));
    return collated(data_, setup, [&](Collator& rows, const EmbeddingExample& example) {
      return reader.read(example, rows);
    });
  }

  void evaluate(EvaluationRun& run) const override { evaluate_embeddings(data_, run); }

 private:
  EmbeddingData data_;
  const EmbeddingTrainingOptions options_;
};

/// The texts of a batch are each other's wrong answers where an example has none of its own.
Index EmbeddingSet::least_batch() const {
  if (loss_of(data_, options_) != EmbeddingLoss::contrastive) return 1;
  const bool all = std::ranges::all_of(data_.examples, [this](const EmbeddingExample& one) {
    return is_in_document(one, options_) || one.texts.size() > 2;
  });
  return all ? 1 : 2;
}

bool EmbeddingSet::has_passages() const {
  return std::ranges::any_of(data_.examples, [this](const EmbeddingExample& one) {
    return is_in_document(one, options_);
  });
}

class TextEmbedding final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "", .verb = "embedding", .class_ending = "Model"};
    return names;
  }

  OptionFields options(DataOptions& data, OptionUse use) const override {
    return embedding_fields(data.embedding, use);
  }

  std::optional<HeadParts> parts(const models::EncoderConfig&) const override { return {}; }
  bool is_present(const models::EncoderConfig&, const models::Weights&) const override {
    return false;
  }
  bool makes_vectors() const override { return true; }

  std::unique_ptr<Head> make_head(const models::EncoderConfig&, const models::Weights&,
                                  DType) const override {
    return std::make_unique<VectorHead>();
  }

  std::vector<Index> globals_of_ids(const models::EncoderConfig&, std::span<const std::int32_t>,
                                    const std::string&) const override {
    return {};
  }

  void check_too_long(TooLong too_long) const override {
    require(too_long != TooLong::split, {Remedy::truncate}, OptionName("stride"),
            "expected truncation of long texts, found a stride; documents with "
            "passages are read in segments by themselves");
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    const EmbeddingTrainingOptions& how = options.embedding;
    require(how.temperature > 0, OptionName("data.embedding.temperature"),
            "expected a number above 0, found {}", how.temperature);
    return std::make_unique<EmbeddingSet>(read_embedding_data(path, options), how);
  }
};

}  // namespace

const Task& text_embedding() {
  static const TextEmbedding task;
  return task;
}

}  // namespace longformer::tasks
