// longformer convert: a BERT or RoBERTa folder becomes a Longformer folder.
#include "longformer/convert.h"

#include <fmt/format.h>

#include <filesystem>
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
  ConvertOptions options;
};

std::string even(const std::string& text) {
  return (text.back() - '0') % 2 == 0 ? "" : "expected an even number, found " + text;
}

void run(const ConvertFlags& flags) {
  namespace fs = std::filesystem;
  const std::string source = flags.source.folder();
  const bool occupied = fs::exists(flags.target) && !fs::is_empty(flags.target);
  if (occupied && !flags.options.overwrite) {
    throw Error(
        fmt::format("'{}': expected an empty folder or a new name, found files: use "
                    "--overwrite to replace a previous result",
                    flags.target));
  }
  convert(source, flags.target, flags.options);
  const FolderInfo before = inspect(source);
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
      "{} ({}, {} tokens) is now {} ({}, {} tokens, window {}, receptive field "
      "{} tokens to each side).\n",
      source, before.model_type, grouped(before.max_tokens), flags.target, after.model_type,
      grouped(after.max_tokens), flags.options.window, grouped(after.receptive_field)));
  output.write(
      "Positions were copied to the new length, query, key and value into the global "
      "projections; the tokenizer and pooling files carry the new length.\n");
  output.write(
      fmt::format("Use it:\n  longformer embed {0} FILE\n  longformer search {0} FILES… "
                  "--query \"…\"\n  transformers: LongformerModel.from_pretrained(\"{0}\")\n",
                  flags.target));
}

}  // namespace

void add_convert(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ConvertFlags>();
  CLI::App& verb = add_verb(
      program, {.name = "convert",
                .description = "Make a Longformer of a BERT or RoBERTa folder, without training.",
                .details = "The result loads in transformers unchanged.",
                .examples = "longformer convert all-MiniLM-L6-v2 minilm-4096 --max-positions 4096 "
                            "--window 256"});
  verb.add_option("SOURCE", flags->source.model,
                  "folder of a BERT or RoBERTa checkpoint, or org/name in the local Hub cache")
      ->required()
      ->type_name("");
  verb.add_option("TARGET", flags->target, "folder to write")->required()->type_name("");
  add_number(verb, "--max-positions", flags->options.max_positions, {.least = 1, .most = 1 << 24},
             "longest document in tokens, special tokens included (4096)");
  add_number(verb, "--window", flags->options.window, {.least = 2, .most = 1 << 24},
             "tokens that a token sees, half on each side; even (512)")
      ->check(CLI::Validator(even, ""));
  verb.add_flag("--overwrite", flags->options.overwrite, "replace a previous result in TARGET");
  add_json(verb, flags->source);
  verb.callback([flags, &action] { action = [flags](Messages&) { run(*flags); }; });
}

}  // namespace longformer::cli
