// longformer info: what is in a checkpoint folder.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "generation_flags.h"
#include "language_model_flags.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "output.h"
#include "results.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

/// "3 on 2 of 12 heads in each layer", or "1, 2 on 0, 2 of 12 heads …" where the layers differ.
std::string dilations_text(const FolderInfo& info) {
  return fmt::format("{} on {} of {} in each layer (not in transformers)",
                     values_of_layers(info.dilations), values_of_layers(info.dilated_heads),
                     counted(info.heads, "head"));
}

std::string windows_text(const std::vector<std::int64_t>& windows) {
  if (windows.empty()) return "none (dense attention)";
  const bool same = std::all_of(windows.begin(), windows.end(),
                                [&](std::int64_t window) { return window == windows.front(); });
  if (same) return fmt::format("{} in every layer", windows.front());
  const auto whole = std::ranges::count(windows, 0);
  const std::int64_t window = *std::ranges::max_element(windows);
  if (whole > 0 && whole + std::ranges::count(windows, window) == std::ssize(windows)) {
    return fmt::format("{} in {} of {} layers, none in the others", window,
                       std::ssize(windows) - whole, windows.size());
  }
  return fmt::format("{}", fmt::join(windows, ", "));
}

std::string pooling_text(const FolderInfo& info) {
  std::string text = info.pooling.empty() ? "none in the folder (mean is taken)" : info.pooling;
  for (const std::int64_t size : info.dense_sizes) text += fmt::format(", Dense to {}", size);
  if (info.normalize) text += ", then scaled to length 1";
  if (info.truncate_dim > 0) text += fmt::format(", then cut to {}", info.embedding_size);
  return text;
}

/// Settings of the folder for embedding texts; defaults are left out.
void print_text_rows(const FolderInfo& info,
                     const std::function<void(const char*, std::string)>& row) {
  if (info.max_length > 0) row("longest to embed", grouped(info.max_length) + " tokens");
  for (const auto& [name, prompt] : info.prompts) {
    const char* mark = name == info.default_prompt_name ? " (default)" : "";
    row("prompt", fmt::format("{}{}: \"{}\"", name, mark, on_one_line(prompt)));
  }
  row("passages",
      info.passage_context == "none" ? "each a text of its own" : "in the context of the document");
}

std::string labels_text(const FolderInfo& info) {
  constexpr std::size_t kMostNamed = 10;
  const std::size_t named = std::min(info.labels.size(), kMostNamed);
  const auto names = std::span(info.labels).first(named);
  std::string text = fmt::format("{}: {}", info.labels.size(), fmt::join(names, ", "));
  if (named < info.labels.size()) text += ", …";
  return info.problem_type.empty() ? text : fmt::format("{} ({})", text, info.problem_type);
}

std::string weights_text(const FolderInfo& info) {
  if (info.weights_file.empty()) return "none";
  return fmt::format("{}, {} ({})", info.dtype, info.weights_file, info.weights_format);
}

void print_table(std::string& output, const FolderInfo& info) {
  const auto row = [&output](const char* name, const std::string& value) {
    output += fmt::format("{:<20}{}\n", name, value);
  };
  row("model type", info.model_type);
  row("architecture", info.architecture);
  row("parameters", grouped(info.parameters));
  row("weights", weights_text(info));
  row("layers", std::to_string(info.layers));
  row("hidden size", std::to_string(info.hidden_size));
  const std::string of_keys =
      info.key_heads < info.heads ? fmt::format(" ({} of keys and values)", info.key_heads) : "";
  row("heads", std::to_string(info.heads) + of_keys);
  row("intermediate size", std::to_string(info.intermediate_size));
  if (info.decoder_layers > 0) {
    row("decoder",
        fmt::format("{}, {}, intermediate size {}", counted(info.decoder_layers, "layer"),
                    counted(info.decoder_heads, "head"), info.decoder_intermediate_size));
  }
  row("activation", info.activation);
  row("vocabulary", grouped(info.vocabulary_size));
  row("token types", std::to_string(info.type_vocabulary_size));
  row("longest document", grouped(info.max_tokens) + " tokens");
  if (info.max_text_tokens > 0) row("longest text", grouped(info.max_text_tokens) + " tokens");
  const bool is_dense = info.attention.empty() || !info.windows.empty();
  row("attention window", is_dense ? windows_text(info.windows) : "none");
  if (!info.dilations.empty()) row("dilation", dilations_text(info));
  if (!info.attention.empty()) row("attention to", info.attention);
  row("receptive field", grouped(info.receptive_field) + " tokens to each side");
  row("tokenizer", info.tokenizer.empty() ? "none" : info.tokenizer);
  if (info.vectors != "dense") row("vectors", info.vectors);
  row("pooling", pooling_text(info));
  if (info.similarity != "cosine") row("similarity", info.similarity);
  print_text_rows(info, row);
  row("pooler", info.has_pooler ? "yes" : "no");
  row("masked-LM head", info.has_masked_lm_head ? "yes" : "no");
  row("head", info.head.empty() ? "none" : info.head);
  if (!info.labels.empty()) row("labels", labels_text(info));
  row("memory needed",
      fmt::format("{} fp32, {} bf16, {} int8 (one document of {} tokens)",
                  bytes_text(static_cast<double>(info.memory_fp32)),
                  bytes_text(static_cast<double>(info.memory_bf16)),
                  bytes_text(static_cast<double>(info.memory_int8)), grouped(info.max_tokens)));
  if (!info.ignored_buffers.empty()) {
    row("ignored buffers", fmt::format("{}", fmt::join(info.ignored_buffers, ", ")));
  }
  if (info.unsupported.empty()) row("unsupported", "nothing");
  for (const std::string& line : info.unsupported) row("unsupported", line);
}

/// How the folder says that texts are written: what stands in no file is as `transformers` has it.
void print_generation(std::string& output, const std::string& folder, bool json) {
  const FolderOptions found = read_generation_options(folder);
  const auto rows = described(found.options);
  if (json) {
    JsonLine options;
    for (const auto& [name, value] : rows) options.add(name, value);
    JsonLine line;
    output += line.add("file", found.file).add_json("options", options.object()).line();
    return;
  }
  output += fmt::format("{:<36}{}\n", "options from",
                        found.file.empty() ? "no file (defaults of transformers)" : found.file);
  for (const auto& [name, value] : rows) {
    output += fmt::format("{:<36}{}\n", name, value);
  }
}

JsonLine as_json(const FolderInfo& info) {
  JsonLine json;
  json.add("model_type", info.model_type).add("architecture", info.architecture);
  json.add("parameters", info.parameters).add("dtype", info.dtype).add("layers", info.layers);
  json.add("hidden_size", info.hidden_size).add("heads", info.heads);
  if (info.key_heads < info.heads) json.add("key_heads", info.key_heads);
  json.add("intermediate_size", info.intermediate_size).add("activation", info.activation);
  json.add("vocabulary_size", info.vocabulary_size);
  json.add("decoder_layers", info.decoder_layers).add("decoder_heads", info.decoder_heads);
  json.add("decoder_intermediate_size", info.decoder_intermediate_size);
  json.add("max_text_tokens", info.max_text_tokens);
  json.add("type_vocabulary_size", info.type_vocabulary_size).add("max_tokens", info.max_tokens);
  json.add("weights_file", info.weights_file).add("weights_format", info.weights_format);
  json.add("ignored_buffers", info.ignored_buffers);
  json.add("windows", std::span<const std::int64_t>(info.windows));
  if (!info.dilations.empty()) {
    json.add("dilations", std::span<const std::int64_t>(info.dilations));
    json.add("dilated_heads", std::span<const std::int64_t>(info.dilated_heads));
  }
  if (!info.attention.empty()) json.add("attention", info.attention);
  json.add("receptive_field", info.receptive_field).add("tokenizer", info.tokenizer);
  json.add("vectors", info.vectors);
  json.add("pooling", info.pooling).add("normalize", info.normalize);
  json.add("similarity", info.similarity).add("truncate_dim", info.truncate_dim);
  json.add("embedding_size", info.embedding_size);
  json.add("dense_sizes", std::span<const std::int64_t>(info.dense_sizes));
  json.add("max_length", info.max_length);
  JsonLine prompts;
  for (const auto& [name, prompt] : info.prompts) prompts.add(name, prompt);
  json.add_json("prompts", prompts.object()).add("default_prompt_name", info.default_prompt_name);
  json.add("passage_context", info.passage_context);
  json.add("has_pooler", info.has_pooler).add("has_masked_lm_head", info.has_masked_lm_head);
  json.add("head", info.head).add("num_labels", static_cast<std::int64_t>(info.labels.size()));
  json.add("labels", std::span<const std::string>(info.labels));
  json.add("problem_type", info.problem_type);
  json.add("memory_fp32", info.memory_fp32).add("memory_bf16", info.memory_bf16);
  json.add("memory_int8", info.memory_int8);
  json.add("unsupported", std::span<const std::string>(info.unsupported));
  return json;
}

/// The report as text, or as one line of JSON.
std::string report_of(const std::string& folder, const ModelFlags& flags, bool generation,
                      Messages& messages) {
  if (LanguageModel::is_one(folder)) {
    const LanguageModelInfo info = LanguageModel::load(folder, flags.load_options(messages)).info();
    return language_model_info_text(info, flags.json);
  }
  const FolderInfo info = inspect(folder);
  std::string text;
  if (generation) {
    if (info.decoder_layers == 0) {
      throw Error(fmt::format("{}: --generation: expected a model with a decoder, found {}", folder,
                              info.model_type));
    }
    print_generation(text, folder, flags.json);
    return text;
  }
  if (flags.json) return as_json(info).line();
  print_table(text, info);
  return text;
}

/// The devices that --device of other verbs takes, a line for each.
std::string devices_text(bool json) {
  std::string text;
  for (const DeviceInfo& device : devices()) {
    if (json) {
      JsonLine line;
      line.add("device", device.device).add("name", device.name).add("kind", device.kind);
      line.add("memory", device.memory_bytes).add("local_memory", device.local_memory_bytes);
      line.add("products", device.products).add("driver", device.driver);
      text += line.line();
      continue;
    }
    text += fmt::format("{}  {} ({}), {:.1f} GB, {} KiB of local memory, products by {}; {}\n",
                        device.device, device.name, device.kind,
                        static_cast<double>(device.memory_bytes) / 1e9,
                        device.local_memory_bytes / 1024, device.products, device.driver);
  }
  return text;
}

}  // namespace

void add_info(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ModelFlags>();
  const auto generation = std::make_shared<bool>(false);
  CLI::App& verb = add_verb(program, {.name = "info",
                                      .description = "Say what is in a checkpoint folder.",
                                      .examples = "longformer info longformer-base-4096\n"
                                                  "longformer info allenai/longformer-base-4096 "
                                                  "--json\n"
                                                  "longformer info --devices\n"
                                                  "longformer info led-base-16384 --generation"});
  CLI::Option* model = add_model(verb, *flags)->required(false);
  const auto shows_devices = std::make_shared<bool>(false);
  verb.add_flag("--devices", *shows_devices,
                "instead of a folder: the devices of OpenCL that --device takes, with their memory")
      ->excludes(model);
  verb.add_flag("--generation", *generation,
                "of a model with a decoder: how its folder says that texts are written");
  add_results(verb, *flags);
  verb.callback([flags, generation, shows_devices, &action] {
    if (flags->model.empty() && !*shows_devices) throw CLI::RequiredError("MODEL");
    action = [flags, generation, shows_devices](Messages& messages) {
      if (*shows_devices) {
        return write_report(*flags, devices_text(with_form(*flags).json));
      }
      const std::string folder = flags->folder();
      write_report(*flags, report_of(folder, with_form(*flags), *generation, messages));
    };
  });
}

}  // namespace longformer::cli
