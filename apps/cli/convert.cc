// longformer convert: the folder of an encoder becomes a Longformer folder.
#include "longformer/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

#include "longformer/error.h"
#include "longformer/info.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct ConvertFlags {
  ModelFlags source;
  std::string target;
  std::int64_t max_positions = 0;
  ConvertOptions options;
};

std::string even(const std::string& text) {
  return (text.back() - '0') % 2 == 0 ? "" : "expected an even number, found " + text;
}

/// "512", or "64, 128" where the layers differ.
std::string windows_of(const FolderInfo& info) {
  const auto& windows = info.windows;
  const bool same =
      std::adjacent_find(windows.begin(), windows.end(), std::not_equal_to<>()) == windows.end();
  return same ? std::to_string(windows.front()) : fmt::format("{}", fmt::join(windows, ", "));
}

void run(const ConvertFlags& flags, Messages& messages) {
  namespace fs = std::filesystem;
  const std::string source = flags.source.token_model_folder();
  const bool occupied = fs::exists(flags.target) && !fs::is_empty(flags.target);
  if (occupied && !flags.options.overwrite) {
    throw Error(
        fmt::format("'{}': expected an empty folder or a new name, found files: use "
                    "--overwrite to replace a previous result",
                    flags.target));
  }
  ConvertOptions options = flags.options;
  if (flags.max_positions > 0) options.max_positions = flags.max_positions;
  options.note = [&messages](const std::string& text) { messages.note(text); };
  const ConvertedFrom before = convert(source, flags.target, options);
  const FolderInfo after = inspect(flags.target);
  Output output;
  if (flags.source.json) {
    JsonLine json;
    json.add("source", source).add("target", flags.target);
    json.add("source_model_type", before.model_type).add("model_type", after.model_type);
    json.add("source_max_tokens", before.max_tokens).add("max_tokens", after.max_tokens);
    json.add("windows", std::span<const std::int64_t>(after.windows));
    json.add("receptive_field", after.receptive_field).add("parameters", after.parameters);
    output.write(json.line());
    return;
  }
  output.write(fmt::format(
      "{} ({}, {} tokens) is now {} ({}, {} tokens, window {}, receptive field {} tokens to each "
      "side, {} in {}).\n",
      source, before.model_type, grouped(before.max_tokens), flags.target, after.architecture,
      grouped(after.max_tokens), windows_of(after), grouped(after.receptive_field), after.dtype,
      after.weights_file));
  if (after.max_text_tokens > 0) {
    output.write(fmt::format(
        "Documents of up to {0} tokens are as before; longer ones, and global "
        "attention, want training:\n  longformer finetune {1} FILE --task seq2seq "
        "--output-dir tuned\n  longformer summarize {1} FILE\n",
        grouped(std::min(before.max_tokens, after.windows.front() / 2 + 1)), flags.target));
    return;
  }
  output.write(
      fmt::format("Use it:\n  longformer embed {0} FILE\n  longformer search {0} FILES… "
                  "--query \"…\"\n  transformers: {1}.from_pretrained(\"{0}\")\n",
                  flags.target, after.architecture));
}

}  // namespace

void add_convert(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ConvertFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "convert",
       .description =
           "Make a Longformer of the folder of an encoder (BERT, RoBERTa and their kin), or an LED "
           "of a BART, without training.",
       .details = "The result loads in transformers unchanged. A Longformer keeps its length and "
                  "windows unless told otherwise; folders of the original implementation are read "
                  "too. An LED has 16,384 tokens and windows of 1,024 unless told otherwise.",
       .examples = "longformer convert all-MiniLM-L6-v2 minilm-4096 --max-positions 4096 "
                   "--window 256\n"
                   "longformer convert minilm-4096 minilm-8192 --max-positions 8192 --dtype bf16 "
                   "--to bin\n"
                   "longformer convert bart-base led-16384 --max-positions 16384 --window 1024"});
  verb.add_option("SOURCE", flags->source.model,
                  "folder of a checkpoint, or org/name[@revision] in the local Hub cache")
      ->required()
      ->type_name("");
  verb.add_option("TARGET", flags->target, "folder to write")->required()->type_name("");
  add_number(verb, "--max-positions", flags->max_positions, {.least = 1, .most = 1 << 24},
             "longest document in tokens, special tokens included (4096, or that of a Longformer)");
  verb.add_option("--window", flags->options.windows,
                  "tokens that a token sees, half on each side; even; one for each layer, "
                  "separated by commas, or one for all (512, or those of a Longformer)")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 24).description(""))
      ->check(CLI::Validator(even, ""))
      ->type_name("N");
  add_choice(verb, "--to", flags->options.format, {"safetensors", "bin"},
             "write model.safetensors or pytorch_model.bin (safetensors)");
  add_choice(verb, "--dtype", flags->options.dtype, {"fp32", "fp16", "bf16"},
             "dtype of the weights (as they are)");
  verb.add_flag("--overwrite", flags->options.overwrite, "replace a previous result in TARGET");
  add_json(verb, flags->source);
  verb.callback(
      [flags, &action] { action = [flags](Messages& messages) { run(*flags, messages); }; });
}

}  // namespace longformer::cli
