// longformer convert: the folder of an encoder becomes a Longformer folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

#include "comparison_report.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "longformer/language_model.h"
#include "longformer/options.h"
#include "option_flags.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct ConvertFlags {
  ModelFlags source;
  std::string target;
  /// Target family, or form of writing.
  std::string to;
  /// A text on which the result is compared with the source.
  std::string report;
  TextEncoding encoding;
  ConvertOptions options;
};

bool is_format(const std::string& to) { return to == "safetensors" || to == "bin"; }

/// A converted model attends otherwise than in its training.
void tell_of_training(const ConvertFlags& flags, const FolderInfo& after, Output& output) {
  output.write(fmt::format(
      "It attends to {}, as it was not trained to: it has to be trained before it is used.\n"
      "  longformer compare {} {} FILE\n  longformer pretrain-mlm {} FILE --output-dir adapted\n"
      "  longformer finetune {} FILE --task TASK --output-dir tuned\n",
      after.attention, flags.source.model, flags.target, flags.target, flags.target));
}

void tell_of_language_model(const ConvertFlags& flags, const ConvertedFrom& before) {
  const LanguageModelInfo info = LanguageModel::load(flags.target).info();
  Output output;
  if (flags.source.json) {
    JsonLine json;
    json.add("source", flags.source.model).add("target", flags.target);
    json.add("source_model_type", before.model_type).add("model_type", "longformer-lm");
    json.add("attention", info.attention).add("parameters", info.parameters);
    return output.write(json.line());
  }
  output.write(fmt::format(
      "{} ({}) is now {} (longformer-lm, {}, {}, {} weights).\n"
      "  longformer evaluate {} FILE\n  longformer generate {}\n",
      flags.source.model, before.model_type, flags.target, info.attention,
      counted(info.layers, "layer"), grouped(info.parameters), flags.target, flags.target));
}

void tell_of_merge(const ConvertFlags& flags) {
  const std::string& adapter = flags.options.merge_adapter;
  Output output;
  if (flags.source.json) {
    JsonLine json;
    json.add("source", flags.source.model).add("target", flags.target).add("adapter", adapter);
    return output.write(json.line());
  }
  output.write(fmt::format("{} with the adapter {} is now {}.\n", flags.source.model, adapter,
                           flags.target));
}

/// Throws for a report that could not be made behind the conversion.
void check_report(const ConvertFlags& flags) {
  if (!std::filesystem::exists(flags.report)) {
    throw Error(fmt::format("--report: expected a file of text, found none at {}",
                            in_quotes(flags.report)));
  }
  const bool writes =
      flags.to == "longformer-lm" || inspect(flags.source.folder()).max_text_tokens > 0;
  if (writes) {
    throw UsageError("--report", "is for encoders, whose hidden states are compared");
  }
}

void show_report(const ConvertFlags& flags, Messages& messages, Output& output) {
  if (flags.report.empty()) return;
  InputOptions text = {.files = {flags.report}};
  text.encoding() = flags.encoding;
  Inputs inputs(text, messages);
  const ComparisonReport report = {.first = flags.source.token_model_folder(),
                                   .second = flags.target};
  output.write(report.text(inputs, flags.source, messages));
}

std::string even(const std::string& text) {
  const auto number = whole_number(text);
  return number && *number % 2 == 0 ? "" : "expected an even number, found " + in_quotes(text);
}

/// A model with rotary positions stays what it was.
void tell_of_length(const ConvertFlags& flags, const ConvertedFrom& before, const FolderInfo& after,
                    Output& output) {
  output.write(fmt::format("{} ({}, {} tokens) is now {} ({}, {} tokens, {} in {}).\n",
                           flags.source.model, before.model_type, grouped(before.max_tokens),
                           flags.target, after.architecture, grouped(after.max_tokens), after.dtype,
                           after.weights_file));
  if (after.max_tokens > before.max_tokens) {
    output.write(fmt::format(
        "Beyond {} tokens it was not trained: compare on your documents, and fine-tune.\n"
        "  longformer bench model {}\n  longformer finetune {} FILE --task TASK --output-dir "
        "tuned\n",
        grouped(before.max_tokens), flags.target, flags.target));
  }
}

void run(const ConvertFlags& flags, Messages& messages) {
  namespace fs = std::filesystem;
  const bool merges = !flags.options.merge_adapter.empty();
  const std::string source = merges ? flags.source.folder() : flags.source.token_model_folder();
  if (!flags.report.empty()) check_report(flags);
  const bool occupied = fs::exists(flags.target) && !fs::is_empty(flags.target);
  if (occupied && !flags.options.overwrite) {
    throw Error(
        fmt::format("'{}': expected an empty folder or a new name, found files: use "
                    "--overwrite to replace a previous result",
                    flags.target));
  }
  ConvertOptions options = flags.options;
  if (is_format(flags.to)) {
    options.format = flags.to;
  } else if (!flags.to.empty()) {
    options.target = flags.to;
  }
  options.note = [&messages](const std::string& text) { messages.note(text); };
  if (merges) {
    convert(source, flags.target, options);
    return tell_of_merge(flags);
  }
  const ConvertedFrom before = convert(source, flags.target, options);
  if (options.target == "longformer-lm") return tell_of_language_model(flags, before);
  const FolderInfo after = inspect(flags.target);
  Output output;
  if (flags.source.json) {
    JsonLine json;
    json.add("source", source).add("target", flags.target);
    json.add("source_model_type", before.model_type).add("model_type", after.model_type);
    json.add("source_max_tokens", before.max_tokens).add("max_tokens", after.max_tokens);
    json.add("windows", std::span<const std::int64_t>(after.windows));
    json.add("receptive_field", after.receptive_field).add("parameters", after.parameters);
    if (!after.attention.empty()) json.add("attention", after.attention);
    output.write(json.line());
    return show_report(flags, messages, output);
  }
  // A model that became longer attends as before.
  if (!after.attention.empty() && after.model_type != before.model_type) {
    output.write(fmt::format("{} ({}, {} tokens) is now {} ({}, {} tokens, {} in {}).\n", source,
                             before.model_type, grouped(before.max_tokens), flags.target,
                             after.architecture, grouped(after.max_tokens), after.dtype,
                             after.weights_file));
    tell_of_training(flags, after, output);
    return show_report(flags, messages, output);
  }
  if (after.model_type != "longformer" && after.model_type != "led") {
    tell_of_length(flags, before, after, output);
    return show_report(flags, messages, output);
  }
  output.write(fmt::format(
      "{} ({}, {} tokens) is now {} ({}, {} tokens, window {}, receptive field {} tokens to each "
      "side, {} in {}).\n",
      source, before.model_type, grouped(before.max_tokens), flags.target, after.architecture,
      grouped(after.max_tokens), values_of_layers(after.windows), grouped(after.receptive_field),
      after.dtype, after.weights_file));
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
  show_report(flags, messages, output);
}

}  // namespace

void add_convert(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ConvertFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "convert",
       .description = "Make a Longformer of the folder of an encoder (BERT, RoBERTa and their "
                      "kin), an LED of a "
                      "BART, or a Linformer or Performer of a BERT, RoBERTa or Longformer; "
                      "lengthen a ModernBERT.",
       .details =
           "The result loads in transformers unchanged. A Longformer keeps its length and "
           "windows unless told otherwise; folders of the original implementation are read "
           "too. A ModernBERT or another model with rotary positions stays of its family and "
           "reads longer documents, by YaRN or a larger base (--rotary). An LED has 16,384 tokens "
           "and windows of 1,024 unless told otherwise. A "
           "Linformer, a Performer, a BlockBERT and a Sparse Transformer (formats of our own) "
           "attend otherwise than the source was trained to, and have to be trained; --report "
           "says by how much. "
           "A Transformer-XL of its authors' code becomes a folder of pretrain-lm (--to "
           "longformer-lm), if config.json has its symbols, and so does a Reformer of "
           "transformers.",
       .examples =
           "longformer convert all-MiniLM-L6-v2 minilm-4096 --max-positions 4096 "
           "--window 256\n"
           "longformer convert minilm-4096 minilm-8192 --max-positions 8192 --dtype bf16 "
           "--format bin\n"
           "longformer convert minilm merged --merge-adapter tuned\n"
           "longformer convert roberta-base dilated --window 64 --dilation 1,1,1,1,2,2,2,2,4,4,4,4 "
           "--dilated-heads 2\n"
           "longformer convert bart-base led-16384 --max-positions 16384 --window 1024\n"
           "longformer convert ModernBERT-base modernbert-32768 --max-positions 32768\n"
           "longformer convert roberta-base performer --to performer --features 256 "
           "--report text.txt"});
  verb.add_option("SOURCE", flags->source.model,
                  "folder of a checkpoint, or org/name[@revision] of the Hub")
      ->required()
      ->type_name("");
  CLI::Option* target = verb.add_option("TARGET", flags->target, "folder to write")->type_name("");
  verb.add_option("-o,--output", flags->target, "folder to write, in place of TARGET")
      ->type_name("FOLDER")
      ->excludes(target);
  std::vector<std::string> targets = conversion_targets();
  targets.insert(targets.end(), {"safetensors", "bin"});
  add_choice(verb, "--to", flags->to, targets,
             "what to make (longformer); safetensors and bin are --format");
  add_fields(verb, fields(flags->options));
  verb.get_option("--window")->check(CLI::Validator(even, ""));
  verb.add_option("--report", flags->report,
                  "text on which to compare the result with the source, layer by layer")
      ->type_name("FILE");
  add_encoding(verb, flags->encoding)->needs(verb.get_option("--report"));
  verb.get_option("--merge-adapter")->excludes(verb.get_option("--report"));
  add_json(verb, flags->source);
  verb.callback([flags, &action] {
    if (flags->target.empty()) throw CLI::RequiredError("TARGET");
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
