#include "api/trained_model.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "formats/weights.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;

/// "LongformerForMaskedLM" and so on.
std::string architecture_of(models::ModelType type, models::HeadKind head) {
  const char* family = type == models::ModelType::longformer ? "Longformer"
                       : type == models::ModelType::bert     ? "Bert"
                                                             : "Roberta";
  const auto ending = models::class_ending(head);
  return fmt::format("{}{}", family, ending);
}

bool has_weights(const fs::path& folder) {
  return std::any_of(std::begin(formats::kWeightFiles), std::end(formats::kWeightFiles),
                     [&](const char* file) { return fs::exists(folder / file); });
}

/// Tensors that a folder of another head has not.
std::vector<models::NamedShape> fresh_tensors(const models::EncoderConfig& config,
                                              models::HeadKind head) {
  std::vector<models::NamedShape> tensors = head == models::HeadKind::masked_lm
                                                ? models::masked_lm_tensors(config)
                                                : models::head_tensors(config, head);
  if (models::needs_pooler(config, head)) {
    for (models::NamedShape& tensor : models::pooler_tensors(config)) {
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

/// Beginnings of the names of tensors that the trained head does not read, or reads as those of
/// another head.
std::vector<std::string> left_out(models::HeadKind found, models::HeadKind wanted, bool pools) {
  std::vector<std::string> prefixes;
  if (!pools) prefixes.emplace_back("pooler.");
  if (found != wanted) {
    for (const char* prefix :
         {"classifier.", "qa_outputs.", "candidate_scorer.", "lm_head.", "cls."}) {
      prefixes.emplace_back(prefix);
    }
  }
  return prefixes;
}

/// Rows of padding (spec.md A.1).
std::map<std::string, Index> padding_rows(const models::EncoderConfig& config) {
  std::map<std::string, Index> rows = {{models::kWordEmbeddings, config.pad_token_id}};
  if (config.model_type != models::ModelType::bert) {
    rows[models::kPositionEmbeddings] = config.pad_token_id;
  }
  return rows;
}

void share_global_projections(const std::string& folder, const models::Checkpoint& weights) {
  bool any = false;
  for (const std::string& name : weights.names()) {
    const std::string local = models::local_projection(name);
    if (local.empty()) continue;
    require(weights.tie(name, local),
            "{}: expected {} with the values of {} to share them, found others", folder, name,
            local);
    any = true;
  }
  require(any, "{}: expected projections of global tokens to share, found none", folder);
}

}  // namespace

TrainedModel::TrainedModel(TrainedModelSetup setup, const TrainingOptions& options)
    : setup_(std::move(setup)),
      checkpointing_(options.gradient_checkpointing),
      label_smoothing_(options.label_smoothing_factor) {
  const bool alone = !setup_.config_file.empty();
  const std::string path = alone ? setup_.config_file : setup_.folder + "/config.json";
  const nlohmann::ordered_json source = formats::read_json(path);
  const auto original = models::parse_config(formats::ConfigReader(source, path));
  json_ = models::trained_config(source, architecture_of(original.model_type, setup_.head),
                                 setup_.labels, setup_.problem_type);
  Index vocabulary = original.vocab_size;
  for (const auto& [token, id] : setup_.added_tokens) {
    vocabulary = std::max<Index>(vocabulary, id + 1);
  }
  if (vocabulary > original.vocab_size) json_["vocab_size"] = vocabulary;
  models::EncoderConfig config = models::parse_config(formats::ConfigReader(json_, path));
  models::Checkpoint weights = !alone && has_weights(setup_.folder)
                                   ? models::Checkpoint::open(setup_.folder)
                                   : models::Checkpoint::random(options.seed);
  const models::HeadKind found = models::head_kind(original, weights);
  const bool pools = models::needs_pooler(config, setup_.head);
  weights = models::Checkpoint::trainable(std::move(weights),
                                          {.fresh = fresh_tensors(config, setup_.head),
                                           .deviation = config.initializer_range,
                                           .zero_rows = padding_rows(config),
                                           .seed = options.seed,
                                           .frozen = setup_.frozen,
                                           .left_out = left_out(found, setup_.head, pools),
                                           .grown = {models::kWordEmbeddings}});
  if (setup_.shares_global_projections) share_global_projections(setup_.folder, weights);
  const LoadOptions load = {
      .dtype = options.dtype, .threads = static_cast<int>(options.threads), .note = setup_.note};
  implementation_ =
      std::make_shared<Model::Implementation>(std::move(config), std::move(weights), load);
  require(implementation_->head == setup_.head,
          "{}: expected tensors of a {} head, found those of {}", setup_.folder,
          name_of(setup_.head), name_of(implementation_->head));
  if (setup_.head == models::HeadKind::masked_lm) implementation_->masked_lm_head();
  add_parameters();
}

void TrainedModel::add_parameters() {
  for (const auto& [name, value] : implementation_->weights.parameters()) {
    const bool positions = name == models::kPositionEmbeddings;
    parameters_.add(
        {.name = name,
         .value = value,
         .decays = training::decays_by_name(name),
         .learning_rate_scale = models::is_of_encoder(name) ? 1 : setup_.head_rate_scale,
         .first_trained_row = positions ? setup_.first_trained_position : 0});
  }
}

training::MicroBatchLoss TrainedModel::step(const models::Batch& batch,
                                            const models::Targets& targets,
                                            std::uint64_t seed) const {
  const auto turn = implementation_->turn();
  Tape tape;
  ops::Context context = implementation_->context();
  context.tape = &tape;
  context.dropout_seed = seed;
  context.checkpointing = checkpointing_;
  const ops::LossSum loss = implementation_->loss(
      context, batch, targets, {.scale = 1, .label_smoothing = label_smoothing_});
  tape.backward();
  return {
      .loss = loss.weight > 0 ? loss.sum / loss.weight : 0, .weight = 1, .tokens = batch.rows()};
}

ops::LossSum TrainedModel::loss(const models::Batch& batch, const models::Targets& targets) const {
  const auto turn = implementation_->turn();
  return implementation_->loss(implementation_->context(), batch, targets,
                               {.scale = 1, .label_smoothing = label_smoothing_});
}

void TrainedModel::save(const fs::path& folder) const {
  models::write_trained_folder({.source = setup_.folder,
                                .json = json_,
                                .config = implementation_->config,
                                .added_tokens = setup_.added_tokens,
                                .globals_from_local = setup_.globals_from_local},
                               implementation_->weights, folder);
}

void TrainedModel::load(const fs::path& folder) const {
  models::read_trained_folder(folder, implementation_->weights);
}

}  // namespace longformer
