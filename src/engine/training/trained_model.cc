#include "engine/training/trained_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "engine/training/adapter_training.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "models/block_families.h"
#include "models/funnel.h"
#include "ops/embedding.h"
#include "ops/gradients.h"
#include "text/encoder_folder.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;

/// "LongformerForMaskedLM" and so on.
std::string architecture_of(const models::Family& family, const engine::Task& task) {
  return fmt::format("{}{}", family.class_prefix, task.names().class_ending);
}

engine::Targets targets_of(const engine::TrainingBatch& batch) {
  return {.documents = batch.targets, .questions = batch.questions};
}

bool is_edge_table(const std::string& name) { return name.ends_with(models::kEdgeTable); }

/// Tensors that are drawn where the folder has none: those of the head, the keys of kinds of edges,
/// and the decoder that tokens need of a Funnel Transformer without one.
std::vector<models::WeightRecord> fresh_tensors(const models::EncoderConfig& config,
                                                const engine::Task* task,
                                                const models::Weights& weights) {
  std::vector<models::WeightRecord> fresh = engine::head_tensors(config, task);
  if (!config.edges.empty()) {
    for (const models::WeightRecord& tensor : models::encoder_tensors(config)) {
      if (is_edge_table(tensor.name)) fresh.push_back(tensor);
    }
  }
  const auto of_decoder = [](const std::string& name) {
    return name.starts_with(models::kFunnelDecoder);
  };
  if (!config.recipe.funnel || std::ranges::any_of(weights.names(), of_decoder)) return fresh;
  for (const models::WeightRecord& tensor : models::encoder_tensors(config)) {
    if (of_decoder(tensor.name)) fresh.push_back(tensor);
  }
  return fresh;
}

void share_global_projections(const std::string& folder, const models::Weights& weights) {
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
      recomputes_(options.gradient_checkpointing),
      label_smoothing_(options.label_smoothing_factor) {
  const bool alone = !setup_.config_file.empty();
  const std::string encoder = text::encoder_folder(setup_.folder);
  const std::string path =
      alone ? setup_.config_file : models::config_file(setup_.folder, options.adapter);
  const nlohmann::ordered_json source = formats::read_json(path);
  const auto original = models::parse_config(formats::ConfigReader(source, path));
  json_ = models::trained_config(source, architecture_of(*original.family, *setup_.task),
                                 setup_.labels, setup_.problem_type);
  json_.update(setup_.settings);
  if (!setup_.random_blocks.empty()) {
    require(original.recipe.blocks.has_value(), OptionName("random_blocks"),
            "expected a model whose tokens see blocks, found a {}", original.family->model_type);
    json_[models::kRandomBlocksKey] = setup_.random_blocks;
  }
  Index vocabulary = original.vocab_size;
  for (const auto& [token, id] : setup_.added_tokens) {
    vocabulary = std::max<Index>(vocabulary, id + 1);
  }
  // An adapter that is trained on may have more tokens than its model.
  const Index base = alone || options.adapter.empty()
                         ? original.vocab_size
                         : models::read_config(encoder + "/config.json").vocab_size;
  if (vocabulary > base) first_added_ = base;
  if (vocabulary > original.vocab_size) json_["vocab_size"] = vocabulary;
  models::EncoderConfig config = models::parse_config(formats::ConfigReader(json_, path));
  const models::TensorNames& names = config.family->names;
  models::Weights weights = !alone && formats::has_weights(encoder)
                                ? models::Weights::open(setup_.folder, names, options.adapter)
                                : models::Weights::drawn(options.seed, names);
  auto adapter = adapter_training(options, config);
  check_adapter(adapter.has_value(), alone || !formats::has_weights(encoder));
  const bool has_other_edges = config.edges != original.edges;
  require(!adapter || !has_other_edges,
          "{}: expected no adapter where keys of edges are new, found one", path);
  const engine::Task* found = engine::task_of(original, weights);
  // Vectors of texts leave the pooler as it was.
  const bool keeps_pooler = setup_.task->makes_vectors();
  const bool pools = keeps_pooler || engine::reads_pooler(config, setup_.task);
  const auto frozen = [keeps_pooler, chosen = setup_.frozen](const std::string& name) {
    return (keeps_pooler && name.starts_with("pooler.")) || (chosen && chosen(name));
  };
  // Tensors that the trained head does not read, or would misread as tensors of another head.
  const bool drops_decoder = config.recipe.funnel && !config.recipe.funnel->has_decoder;
  const auto left_out = [this, same = found == setup_.task, pools, drops_decoder,
                         has_other_edges](const std::string& name) {
    if (has_other_edges && is_edge_table(name)) return true;
    if (drops_decoder && name.starts_with(models::kFunnelDecoder)) return true;
    if (name.starts_with("pooler.")) return !pools;
    if (setup_.draws_head) return !models::is_of_encoder(name);
    return !same && !models::is_of_encoder(name) && !setup_.task->begins_with(name);
  };
  auto fresh = fresh_tensors(config, setup_.task, weights);
  weights = models::Weights::trained(std::move(weights), {.fresh = std::move(fresh),
                                                          .seed = options.seed,
                                                          .frozen = frozen,
                                                          .left_out = left_out,
                                                          .grown = {models::kWordEmbeddings},
                                                          .adapter = std::move(adapter)});
  if (setup_.shares_global_projections) share_global_projections(setup_.folder, weights);
  const LoadOptions load = {
      .dtype = options.dtype, .threads = static_cast<int>(options.threads), .note = setup_.note};
  implementation_ = std::make_shared<Model::Implementation>(
      std::move(config), std::move(weights), load, keeps_pooler ? setup_.task : nullptr);
  require(implementation_->task == setup_.task,
          "{}: expected tensors of a {} head, found those of {}", setup_.folder,
          engine::head_name(setup_.task), engine::head_name(implementation_->task));
  implementation_->task_head();
  implementation_->weights.check_low_rank();
  add_parameters();
}

void TrainedModel::check_adapter(bool is_adapter, bool is_drawn) const {
  if (!is_adapter) return;
  const std::string& path = setup_.config_file.empty() ? setup_.folder : setup_.config_file;
  require(!is_drawn, "{}: expected weights that an adapter is trained for, found none", path);
  require(!setup_.shares_global_projections,
          "{}: expected no adapter where global projections are shared, found one", path);
}

void TrainedModel::add_parameters() {
  const models::Weights& weights = implementation_->weights;
  for (const auto& [name, value] : weights.parameters()) {
    Index first_trained = 0;
    if (name == models::kPositionEmbeddings) first_trained = setup_.first_trained_position;
    if (name == models::kWordEmbeddings && weights.trained_adapter() != nullptr) {
      first_trained = first_added_;
    }
    parameters_.add(
        {.name = name,
         .value = value,
         .decays = training::decays_by_name(name),
         .learning_rate_scale = models::is_of_encoder(name) ? 1 : setup_.head_rate_scale,
         .first_trained_row = first_trained});
  }
}

void TrainedModel::check_lengths(std::span<const Index> lengths) const {
  const Index whole = implementation_->config.trained_length();
  for (const Index length : lengths) {
    // An example may be several texts.
    if (whole > 0 && length % whole != 0) implementation_->encoder.check_trained(length);
  }
}

double TrainedModel::weight_of(const engine::TrainingBatch& batch) const {
  const engine::Targets targets = targets_of(batch);
  if (setup_.class_weights.empty() || !setup_.class_weights.other.empty()) {
    return implementation_->task_head().weight(targets);
  }
  return engine::weight_of(setup_.class_weights, engine::labels_of(targets));
}

training::MicroBatchLoss TrainedModel::step(const engine::TrainingBatch& batch,
                                            std::uint64_t seed) const {
  const auto turn = implementation_->turn();
  Tape tape;
  ops::Context context = implementation_->context();
  context.tape = &tape;
  context.dropout_seed = seed;
  context.recomputes = recomputes_;
  const double weight = weight_of(batch);
  const engine::ClassWeights* weights =
      setup_.class_weights.empty() ? nullptr : &setup_.class_weights;
  const ops::LossSum loss = loss_of(context, batch, {.scale = weight, .class_weights = weights});
  tape.backward();
  return {.loss = loss.weight > 0 ? weight * loss.sum / loss.weight : 0,
          .weight = weight,
          .tokens = batch.tokens.rows()};
}

training::MicroBatchLoss TrainedModel::step_in_parts(std::span<const engine::TrainingBatch> parts,
                                                     std::uint64_t seed) const {
  const auto turn = implementation_->turn();
  const auto& head = dynamic_cast<const engine::VectorLossHead&>(implementation_->task_head());
  ops::Context untaped = implementation_->context();
  untaped.recomputes = recomputes_;
  const auto vectors_of = [&](std::size_t part, Tape* tape) {
    ops::Context context = untaped;
    context.tape = tape;
    context.dropout_seed = random_bits(seed, part);
    const models::Batch& tokens = parts[part].tokens;
    const Tensor hidden = implementation_->encoder.forward(context, tokens), pooled;
    return head.vectors(context, {.hidden = hidden, .pooled = pooled, .batch = tokens},
                        targets_of(parts[part]));
  };
  std::vector<Tensor> made;
  engine::TrainingBatch whole;
  Index tokens = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    made.push_back(vectors_of(part, nullptr));
    std::ranges::copy(parts[part].targets, std::back_inserter(whole.targets));
    std::ranges::copy(parts[part].questions, std::back_inserter(whole.questions));
    tokens += parts[part].tokens.rows();
  }
  Tensor all = ops::joined_rows(untaped, made);
  Tape::track(all);
  Tape losses;
  ops::Context context = untaped;
  context.tape = &losses;
  const ops::LossSum loss = head.loss_of(context, all, targets_of(whole), {});
  losses.backward();
  const Tensor gradient = all.gradient()->take();
  Index first = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    Tape tape;
    const Tensor vectors = vectors_of(part, &tape);
    if (!gradient.empty()) {
      ops::send_gradient(untaped, vectors, gradient.slice_rows(first, vectors.rows()));
    }
    first += vectors.rows();
    tape.backward();
  }
  return {.loss = loss.sum, .weight = 1, .tokens = tokens};
}

ops::LossSum TrainedModel::loss(const engine::TrainingBatch& batch,
                                engine::PassStates* states) const {
  const auto turn = implementation_->turn();
  return loss_of(implementation_->context(), batch, {.states = states});
}

ops::LossSum TrainedModel::loss_of(const ops::Context& context, const engine::TrainingBatch& batch,
                                   engine::HeadLossOptions options) const {
  options.label_smoothing = label_smoothing_;
  return implementation_->loss(context, batch.tokens, targets_of(batch), options);
}

nlohmann::ordered_json TrainedModel::description() const {
  nlohmann::ordered_json description = {{"config.json", json_}};
  const models::Weights& weights = implementation_->weights;
  if (weights.trained_adapter() != nullptr) description["base weights"] = weights.fingerprint();
  return description;
}

void TrainedModel::save(const fs::path& folder) const {
  models::write_trained_folder({.source = setup_.folder,
                                .json = json_,
                                .config = implementation_->config,
                                .added_tokens = setup_.added_tokens,
                                .globals_from_local = setup_.globals_from_local,
                                .max_text_tokens = setup_.max_text_tokens,
                                .passage_context = setup_.passage_context},
                               implementation_->weights, folder);
}

void TrainedModel::load(const fs::path& folder) const {
  models::read_trained_folder(folder, implementation_->weights);
}

}  // namespace longformer
