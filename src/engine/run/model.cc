#include "longformer/model.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "core/cpu.h"
#include "core/error.h"
#include "core/threads.h"
#include "engine/run/finite_results.h"
#include "engine/run/model_implementation.h"
#include "models/attention/attention.h"
#include "models/convert/int8.h"
#include "models/document_part.h"
#include "models/funnel.h"
#include "models/shared_layers.h"
#include "ops/device.h"
#include "ops/embedding.h"

namespace longformer {
namespace {

std::string document_name(std::size_t index, std::size_t count) {
  return count == 1 ? "document" : fmt::format("document {}", index);
}

/// Positions that a mask of global attention names; `n` tokens.
std::vector<Index> globals_of_mask(std::span<const std::int32_t> mask, std::size_t n,
                                   const std::string& name) {
  require(mask.empty() || mask.size() == n,
          "{}: expected a global attention mask with {} elements, found {}", name, n, mask.size());
  std::vector<Index> positions;
  for (std::size_t t = 0; t < mask.size(); ++t) {
    // −1 is how the LED tokenizer pads this mask.
    require(mask[t] >= -1 && mask[t] <= 1,
            "{}: expected global attention mask values from -1 to 1, found {} at position {}", name,
            mask[t], t);
    if (mask[t] == 1) positions.push_back(static_cast<Index>(t));
  }
  return positions;
}

std::vector<models::Edge> edges_of(std::span<const std::int32_t> numbers, const std::string& name) {
  require(numbers.size() % 3 == 0, "{}: expected three numbers for each edge, found {}", name,
          numbers.size());
  std::vector<models::Edge> edges;
  for (std::size_t i = 0; i < numbers.size(); i += 3) {
    edges.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  }
  return edges;
}

/// Null for a process alone. Throws Error for a model that ranks cannot share.
std::unique_ptr<const CheckedRanks> shared_among(const Ranks* ranks,
                                                 const models::EncoderConfig& config) {
  if (ranks == nullptr || ranks->count() == 1) return nullptr;
  models::check_divisible(config);
  return std::make_unique<CheckedRanks>(*ranks);
}

/// Input of each layer of the model; empty where nothing is given.
std::vector<Tensor> layer_inputs(const Model::Implementation& model, const models::Batch& batch,
                                 std::span<const std::vector<float>> given) {
  if (given.empty()) return {};
  const Index layers = model.config.layers, width = model.config.hidden_size;
  require(!model.config.recipe.funnel && !model.config.reformer,
          "layer inputs: expected a model whose layers all read one row of each token, found a {}",
          model.config.model_type());
  require(batch.documents() == 1, "layer inputs: expected one document, found {}",
          batch.documents());
  require(std::ssize(given) == layers, "layer inputs: expected one for each of {} layers, found {}",
          layers, given.size());
  std::vector<Tensor> inputs;
  for (const std::vector<float>& rows : given) {
    require(std::ssize(rows) == batch.rows() * width,
            "layer inputs: expected {} × {} numbers, found {}", batch.rows(), width, rows.size());
    inputs.push_back(Tensor::from(rows, {batch.rows(), width}).to(model.dtype));
  }
  return inputs;
}

/// Turns what an encoder shows into the public form. `batch` must outlive the observer.
std::optional<models::AttentionObserver> attention_observer(const Model::Implementation& model,
                                                            const models::Batch& batch,
                                                            const AttentionSelection& selection) {
  if (!selection.callback) return std::nullopt;
  const std::string_view what =
      model.config.linformer ? "rows that stand for all tokens" : "features";
  require(
      !model.config.linformer && !model.config.features,
      "attention: expected a model whose tokens attend to tokens, found a {}, whose tokens attend "
      "to {}",
      model.config.model_type(), what);
  models::AttentionObserver observer;
  observer.layers = chosen_indices(selection.layers, model.config.layers, "layer");
  observer.heads = chosen_indices(selection.heads, model.config.heads, "head");
  observer.observe = [&batch, &config = model.config, callback = selection.callback](
                         Index layer, const ops::HeadProbabilities& seen) {
    HeadAttention head;
    head.document = seen.which.document;
    head.layer = layer;
    head.head = seen.which.head;
    head.tokens = seen.local.rows();
    head.dense = config.pattern(layer)[0].reach_left == kernels::kUnlimitedReach;
    const Index begin = batch.starts[static_cast<std::size_t>(head.document)];
    const Index end = batch.starts[static_cast<std::size_t>(head.document) + 1];
    for (const Index row : batch.global_rows) {
      if (!head.dense && row >= begin && row < end) head.global_positions.push_back(row - begin);
    }
    head.columns = seen.local.columns();
    head.local = seen.local.to_floats();
    if (const auto& funnel = config.recipe.funnel) {
      head.tokens = head.columns = end - begin;
      head.local = models::token_probabilities(*funnel, layer, end - begin, head.local);
    }
    if (!seen.global.empty()) head.global = seen.global.to_floats();
    callback(std::move(head));
  };
  return observer;
}

bool has_requested_head(const models::EncoderConfig& config, const models::Weights& weights) {
  const engine::Task* task = engine::requested_task();
  return task != nullptr && task->is_present(config, weights);
}

/// Throws Error for layers to skip without int8.
const std::vector<std::string>& checked_skip(const LoadOptions& options) {
  require(options.int8_skip.empty() || options.dtype == "int8", OptionName("int8_skip"),
          "expected dtype int8 beside it, found {}", options.dtype);
  return options.int8_skip;
}

/// Throws Error for a model that no device runs.
void check_device(const models::EncoderConfig& config, const LoadOptions& options) {
  require(options.dtype == "fp32", OptionName("dtype"), "expected fp32 on a device, found {}",
          options.dtype);
  require(options.ranks == nullptr || options.ranks->count() == 1, OptionName("device"),
          "expected cpu for documents that ranks share, found {}", options.device);
  require(options.layers == nullptr, OptionName("device"),
          "expected cpu for models that share their layers, found {}", options.device);
  require(!config.table, OptionName("device"),
          "expected cpu for a {}, whose layers are a table of tokens, found {}",
          config.model_type(), options.device);
  require(!config.decoder, OptionName("device"),
          "expected cpu for a {}, an encoder with a decoder, found {}", config.model_type(),
          options.device);
}

models::Weights computing(models::Weights weights, const Compute& compute,
                          const LoadOptions& options, const models::EncoderConfig& config) {
  const std::vector<std::string>& skipped = checked_skip(options);
  const bool is_cpu = options.device.empty() || options.device == "cpu";
  if (!is_cpu) check_device(config, options);
  require(is_cpu || !weights.keeps_tensors(), OptionName("device"),
          "expected cpu for training and gradients, found {}", options.device);
  if (const auto device = ops::Device::named(options.device)) {
    const ops::DeviceFacts facts = device->facts();
    if (options.note && facts.kind == "CPU") {
      options.note(
          fmt::format("device {}: {} is a CPU, on which models run faster without a device",
                      options.device, facts.name));
    }
    weights.use_device(device);
  }
  if (compute.int8) weights.use_int8(skipped);
  return weights;
}

/// The logits of one document: `rows` rows of those of the batch, from row `first` on.
void store_logits(const Tensor& logits, Index first, Index rows, const engine::Task* task,
                  DocumentOutput& output) {
  std::vector<float> values = logits.slice_rows(first, rows).to_floats();
  if (!task->has_span_logits()) {
    output.logits = std::move(values);
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += 2) {
    output.start_logits.push_back(values[i]);
    output.end_logits.push_back(values[i + 1]);
  }
}

}  // namespace

std::vector<Index> chosen_indices(std::span<const std::int64_t> indices, Index count,
                                  const char* what) {
  std::vector<Index> result(indices.begin(), indices.end());
  if (result.empty()) {
    result.resize(static_cast<std::size_t>(count));
    std::iota(result.begin(), result.end(), 0);
  }
  for (const Index index : result) {
    require(index >= 0 && index < count, "attention: expected {}s from 0 to {}, found {}", what,
            count - 1, index);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

Model::Implementation::Implementation(models::EncoderConfig model_config, models::Weights stored,
                                      const LoadOptions& options, const engine::Task* trained)
    : config(std::move(model_config)),
      dtype_name(options.dtype),
      int8_skip(options.int8_skip),
      compute(compute_of(options.dtype)),
      weights(computing(std::move(stored), compute, options, config)),
      dtype(compute.dtype),
      threads(checked_threads(options.threads)),
      note(options.note),
      pass(options.pass),
      ranks(shared_among(options.ranks, config)),
      encoder(with_threads(threads, [this] { return models::Encoder(config, weights, dtype); })),
      task(trained == nullptr ? engine::task_of(config, weights) : trained),
      runner(*this, options.turns) {
  info = {.model_type = std::string(config.model_type()),
          .layers = config.layers,
          .heads = config.heads,
          .hidden_size = config.last_size(),
          .vocabulary_size = config.vocab_size,
          .windows = config.windows(),
          .max_tokens = task == nullptr ? config.max_tokens() : task->longest_document(config),
          .pad_token_id = config.pad_token_id,
          .threads = threads,
          .has_pooler = encoder.has_pooler(),
          .has_masked_lm_head = has_requested_head(config, weights),
          .has_global_attention = config.has_global_attention(),
          .head = std::string(engine::head_name(task)),
          .labels = {},
          .problem_type = {}};
  if (task != nullptr && task->has_labels()) {
    info.labels = config.labels;
    info.problem_type = config.problem_type;
  }
  if (task != nullptr && !task->has_logits_on_request()) {
    const ThreadLimit limit(threads);
    head = task->make_head(config, weights, dtype);
  }
  if (weights.is_on_device()) check_ops_of_device();
  // The layers of a decoder are made when it first writes: their names are known before.
  if (compute.int8 && config.decoder) {
    static_cast<void>(models::int8_layers_of(config, options.int8_skip));
  } else if (compute.int8) {
    weights.int8_layers()->check_skipped();
  }
  const std::string other = compute_note(options.dtype);
  if (note && !other.empty()) note(other);
  const std::string unused = engine::unused_keys(config);
  if (note && !unused.empty()) note(unused);
  weights.tell_nonfinite(note);
}

void Model::Implementation::check_ops_of_device() const {
  constexpr std::array<std::int32_t, 2> kIds = {0, 0};
  try {
    DocumentInput document = {};
    document.ids = kIds;
    const models::Batch tokens = batch({&document, 1});
    const Tensor hidden = encoder.forward(context(), tokens);
    if (head && head->has_logits()) logits(context(), tokens, hidden);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", config.model_type(), error.what()));
  }
}

models::Batch Model::Implementation::batch(std::span<const DocumentInput> documents,
                                           const engine::Task* globals_of) const {
  models::BatchBuilder builder(config);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const DocumentInput& document = documents[i];
    const std::string name = document_name(i, documents.size());
    const auto& mask = document.global_attention_mask;
    const std::vector<Index> globals =
        mask.empty() ? engine::default_globals(config, globals_of, document.ids, name)
                     : globals_of_mask(mask, document.ids.size(), name);
    const std::vector<models::Edge> edges = edges_of(document.edges, name);
    builder.add({.ids = document.ids,
                 .types = document.token_type_ids,
                 .positions = document.position_ids,
                 .mask = document.attention_mask,
                 .globals = globals,
                 .edges = edges},
                name);
  }
  return builder.finish();
}

const engine::Head& Model::Implementation::task_head() const {
  if (head) return *head;
  require(task != nullptr, "loss: expected a folder with a head, found an encoder alone");
  return requested_head();
}

const engine::Head& Model::Implementation::requested_head() const {
  if (!requested) {
    requested = engine::requested_task()->make_head(config, weights, dtype);
    weights.tell_nonfinite(note);
  }
  return *requested;
}

Tensor Model::Implementation::logits(const ops::Context& context, const models::Batch& batch,
                                     const Tensor& hidden) const {
  const bool pools = engine::reads_pooler(config, task);
  const Tensor pooled = pools ? encoder.pool(context, hidden, batch) : Tensor();
  return task_head().logits(context, {.hidden = hidden, .pooled = pooled, .batch = batch});
}

ops::LossSum Model::Implementation::loss(const ops::Context& context, const models::Batch& batch,
                                         const engine::Targets& targets,
                                         const engine::HeadLossOptions& options) const {
  const engine::Head& head = task_head();
  const Tensor hidden = encoder.forward(context, batch);
  const bool pools = engine::reads_pooler(config, task);
  const Tensor pooled = pools ? encoder.pool(context, hidden, batch) : Tensor();
  if (options.states != nullptr) options.states->hidden = hidden;
  return head.loss(context, {.hidden = hidden, .pooled = pooled, .batch = batch}, targets, options);
}

Model::Model(std::shared_ptr<const Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Model Model::load(const std::string& folder, const LoadOptions& options) {
  auto config = models::read_folder_config(folder, options.adapter);
  require(!config.table || options.adapter.empty(),
          "{}: expected a model with layers for an adapter, found a table of tokens", folder);
  auto weights = models::Weights::open(folder, config.family->names, options.adapter);
  weights.share(options.layers);
  const engine::Task* task = engine::task_for(config, weights, options.task);
  return Model(
      std::make_shared<Implementation>(std::move(config), std::move(weights), options, task));
}

Model Model::random(const std::string& config_file, const LoadOptions& options) {
  return Model(std::make_shared<Implementation>(models::read_config(config_file),
                                                models::Weights::drawn(1), options));
}

std::shared_ptr<models::SharedLayers> shared_layers() {
  return std::make_shared<models::SharedLayers>();
}

std::shared_ptr<Turns> shared_turns(bool by_arrival) {
  return std::make_shared<Turns>(by_arrival ? Turns::Order::arrival : Turns::Order::shortest);
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (const ops::DeviceFacts& facts : ops::Device::every()) {
    all.push_back({.device = fmt::format("opencl:{}", all.size()),
                   .name = facts.name,
                   .driver = facts.driver,
                   .kind = facts.kind,
                   .memory_bytes = facts.memory,
                   .local_memory_bytes = facts.local_memory,
                   .products = facts.products});
  }
  return all;
}

void release_memory(Turns& turns) { turns.memory().clear(); }

double Model::seconds_before(std::int64_t tokens) const {
  const Runner& runner = implementation_->runner;
  return runner.turns().seconds_before(runner.seconds_of(tokens));
}

std::string_view instruction_set() { return name_of(cpu_isa()); }

std::int64_t Model::bytes_sent() const {
  const auto& ranks = implementation_->ranks;
  return ranks ? ranks->bytes_sent() : 0;
}

std::int64_t Model::turns_lent() const { return implementation_->runner.turns().lent(); }

double Model::seconds_waited() { return Turns::seconds_waited(); }

double Model::seconds_of(std::int64_t tokens) const {
  return implementation_->runner.seconds_of(tokens);
}

const ModelInfo& Model::info() const { return implementation_->info; }

std::vector<DocumentOutput> Model::forward(std::span<const DocumentInput> documents,
                                           const ForwardOptions& options) const {
  if (documents.empty()) return {};
  const Implementation& model = *implementation_;
  if (model.ranks && documents.size() > 1) {
    std::vector<DocumentOutput> outputs;
    for (const DocumentInput& document : documents) {
      outputs.push_back(std::move(forward({&document, 1}, options)[0]));
    }
    return outputs;
  }
  const models::Batch batch = model.batch(documents, options.head ? model.task : nullptr);
  Turn turn = model.turn(model.runner.claim_of(batch.rows()));
  turn.computes(batch.rows());
  const ops::Context context = model.context();
  std::vector<Tensor> states;
  const std::vector<Tensor> inputs = layer_inputs(model, batch, options.layer_inputs);
  const auto observer = attention_observer(model, batch, options.attention);
  const Tensor last =
      model.runner.encode(turn, batch,
                          {.hidden_states = options.hidden_states ? &states : nullptr,
                           .layer_inputs = inputs.empty() ? nullptr : &inputs,
                           .observer = observer ? &*observer : nullptr});
  const Tensor pooled = model.info.has_pooler ? model.encoder.pool(context, last, batch) : Tensor();
  const bool head = options.head && model.head != nullptr && model.head->has_logits();
  const Tensor logits =
      head ? model.head->logits(context, {.hidden = last, .pooled = pooled, .batch = batch})
           : Tensor();
  std::vector<DocumentOutput> outputs(documents.size());
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Index begin = batch.starts[i];
    const Index count = batch.starts[i + 1] - begin;
    if (options.last_hidden_state) {
      outputs[i].last_hidden_state = last.slice_rows(begin, count).to_floats();
    }
    if (!pooled.empty()) {
      outputs[i].pooler_output = pooled.slice_rows(static_cast<Index>(i), 1).to_floats();
    }
    if (head) {
      const bool per_token = model.head->per_token();
      store_logits(logits, per_token ? begin : static_cast<Index>(i), per_token ? count : 1,
                   model.task, outputs[i]);
    }
    for (const Tensor& state : states) {
      outputs[i].hidden_states.push_back(state.slice_rows(begin, count).to_floats());
    }
  }
  return outputs;
}

void Model::attention(const DocumentInput& document, const AttentionSelection& selection) const {
  const Implementation& model = *implementation_;
  const models::Batch batch = model.batch({&document, 1}, model.task);
  AttentionSelection checked = selection;
  if (selection.callback) {
    checked.callback = [&selection](HeadAttention head) {
      for (const auto* values : {&head.local, &head.global}) {
        require_finite(*values, "probabilities", fmt::format("layer {}", head.layer));
      }
      selection.callback(std::move(head));
    };
  }
  auto observer = attention_observer(model, batch, checked);
  if (!observer) return;
  observer->alone = true;
  Turn turn = model.turn(model.runner.claim_of(batch.rows()));
  model.runner.encode(turn, batch, {.observer = &*observer});
}

std::vector<std::int32_t> Model::default_global_attention_mask(
    std::span<const std::int32_t> ids) const {
  const auto positions =
      engine::default_globals(implementation_->config, implementation_->task, ids, "document");
  if (positions.empty()) return {};
  std::vector<std::int32_t> mask(ids.size(), 0);
  for (const Index position : positions) mask[static_cast<std::size_t>(position)] = 1;
  return mask;
}

std::vector<float> Model::masked_lm_logits(const DocumentInput& document,
                                           std::span<const std::int64_t> positions) const {
  const Implementation& model = *implementation_;
  require(model.info.has_masked_lm_head,
          "masked LM: expected a folder with a masked-LM head, found model_type {} without one",
          model.info.model_type);
  const models::Batch batch = model.batch({&document, 1});
  std::vector<Index> rows(positions.begin(), positions.end());
  if (rows.empty()) {
    rows.resize(document.ids.size());
    std::iota(rows.begin(), rows.end(), 0);
  }
  for (const Index row : rows) {
    require(row >= 0 && row < batch.rows(), "masked LM: expected positions from 0 to {}, found {}",
            batch.rows() - 1, row);
  }
  Turn turn = model.turn(model.runner.claim_of(batch.rows()));
  const ops::Context context = model.context();
  const Tensor hidden = model.runner.encode(turn, batch);
  return model.requested_head()
      .logits_of_rows(context, ops::select_rows(context, hidden, rows))
      .to_floats();
}

}  // namespace longformer
