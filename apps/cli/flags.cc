#include "flags.h"

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "help.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "longformer/generation.h"
#include "longformer/language_model.h"
#include "longformer/options.h"
#include "option_flags.h"
#include "output.h"

namespace longformer::cli {

namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 success, 1 an input failed (the results of the others are kept), "
    "2 wrong usage,\n"
    "128 + N signal N ended the work (Ctrl-C: 130).";

}  // namespace

CLI::App& add_verb(CLI::App& program, const VerbText& text) {
  const std::string details = wrapped(text.details, kColumns, "");
  CLI::App* verb =
      program.add_subcommand(text.name, text.description + (details.empty() ? "" : "\n" + details));
  std::string examples;
  std::size_t begin = 0;
  while (begin < text.examples.size()) {
    const std::size_t end = std::min(text.examples.find('\n', begin), text.examples.size());
    examples += "  " + text.examples.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  verb->footer(fmt::format("Examples:\n{}\n{}", examples, kExitCodes));
  return *verb;
}

std::string ModelFlags::folder() const { return find_model(model); }

std::string ModelFlags::token_model_folder() const {
  std::string found = folder();
  if (LanguageModel::is_one(found)) {
    throw Error(
        fmt::format("{}: expected an encoder, alone or with a decoder, found a character language "
                    "model, which 'longformer "
                    "generate' and "
                    "'longformer evaluate' run",
                    found));
  }
  return found;
}

std::string ModelFlags::encoder_folder() const {
  std::string found = token_model_folder();
  if (TextGenerator::is_one(found)) {
    throw Error(
        fmt::format("{}: expected an encoder, found an encoder with a decoder, which "
                    "'longformer generate' and 'longformer summarize' run",
                    found));
  }
  return found;
}

CLI::Option* add_model(CLI::App& verb, ModelFlags& flags) {
  return verb
      .add_option("MODEL", flags.model,
                  "folder of a Hugging Face checkpoint, or org/name[@revision] of the Hub")
      ->required()
      ->type_name("");
}

void add_json(CLI::App& verb, ModelFlags& flags) {
  verb.add_flag("--json", flags.json, "print one JSON object per line");
}

void add_results(CLI::App& verb, ModelFlags& flags) {
  add_json(verb, flags);
  add_output(verb, flags.output,
             "write to this file instead of stdout; .jsonl, .json, .csv and .tsv choose the form, "
             ".txt and others are text");
}

void add_threads(CLI::App& verb, std::int64_t& threads) {
  add_number(verb, "--threads", threads, {.least = 0, .most = kMostThreads},
             "0 takes what CPU affinity and the cgroup quota allow (0)");
}

void add_compute(CLI::App& verb, ModelFlags& flags) {
  verb.add_option("--adapter", flags.adapter,
                  "folder of a LoRA adapter of MODEL, as peft or finetune --lora-rank writes it "
                  "(none)")
      ->type_name("FOLDER");
  add_choice(verb, "--dtype", flags.dtype, {"fp32", "bf16", "int8"},
             "weights and activations: fp32 or bf16, or layers of int8 with activations of bf16 "
             "(fp32)");
  add_int8_skip(verb, flags.int8_skip);
  add_threads(verb, flags.threads);
}

void add_device(CLI::App& verb, ModelFlags& flags) {
  const auto check = [](const std::string& name) -> std::string {
    constexpr std::string_view kNumbered = "opencl:";
    const bool is_numbered = name.starts_with(kNumbered) &&
                             whole_number(std::string_view(name).substr(kNumbered.size())) >= 0;
    if (name == "cpu" || name == "opencl" || is_numbered) return {};
    return "expected cpu, opencl or opencl:N, found " + in_quotes(name);
  };
  verb.add_option("--device", flags.device,
                  "cpu, or opencl or opencl:N for a GPU, the first one or that of the number which "
                  "'longformer info --devices' shows (cpu)")
      ->check(CLI::Validator(check, "", ""))
      ->type_name("DEVICE");
}

void refuse_device(CLI::App& verb, std::string_view what) {
  const auto refuse = [what = std::string(what)](const std::string& name) {
    if (name == "cpu") return;
    throw UsageError("--device", fmt::format("expected cpu, as {} runs on it alone, found {}", what,
                                             in_quotes(name)));
  };
  verb.add_option_function<std::string>("--device", refuse, "")->type_name("DEVICE")->group("");
}

void add_int8_skip(CLI::App& verb, std::vector<std::string>& layers, const std::string& more) {
  verb.add_option("--int8-skip", layers,
                  "int8: layers that stay as they are, numbers from 0 or parts of names such as "
                  "output.dense, separated by commas" +
                      more + " (none)")
      ->delimiter(',')
      ->type_name("LAYERS");
}

void add_inputs(CLI::App& verb, InputOptions& inputs) {
  verb.add_option(
          "FILES", inputs.files,
          "each file is a document (text, PDF, .docx, .odt, .epub), and each row of .csv, .tsv and "
          ".jsonl; of each folder the documents in it and below; gzip, xz and zstd are unpacked; - "
          "is stdin, also the default")
      ->type_name("");
  add_repeatable(verb, "--text", inputs.texts, "a document given here; may be repeated");
  add_tables(verb, inputs);
  verb.add_option_function<std::string>(
          "--shard", [&inputs](const std::string& text) { inputs.shard = shard_of(text); },
          "part I of N of the documents, cut by a hash of their ids, else of file and line")
      ->type_name("I/N");
}

void add_tables(CLI::App& verb, InputOptions& inputs) {
  verb.add_flag("--lines", inputs.lines, "each line of the files is a document");
  OptionFields fields = table_fields(inputs.table);
  // Files of any name, and stdin, are tables if these are given.
  const auto read_text_field = [&inputs](const std::string& name) {
    inputs.table.text_field = name;
    inputs.are_tables = true;
  };
  for (OptionField& field : fields) {
    if (field.name != "text_field") continue;
    const auto shown = [&inputs] { return inputs.table.text_field; };
    field.value = OptionField::Text{read_text_field, shown};
    field.help = "field or column of the document; all files, and stdin, are then tables ({})";
  }
  add_fields(verb, fields);
  // Help does not show the older name.
  const auto read_field = [&inputs, read_text_field](const std::string& name) {
    if (inputs.are_tables) {
      throw UsageError("--field", "expected without --text-field, which is its newer name");
    }
    read_text_field(name);
  };
  verb.add_option_function<std::string>("--field", read_field, "")->type_name("NAME")->group("");
}

CLI::Option* add_encoding(CLI::App& verb, TextEncoding& encoding) {
  add_fields(verb, {encoding_field(encoding)});
  return verb.get_option("--encoding");
}

CLI::Option* add_output(CLI::App& verb, std::string& output, const std::string& description) {
  const auto read = [&output](const std::string& file) {
    output = is_standard_output(file) ? "" : file;
  };
  return verb.add_option_function<std::string>("-o,--output", read, description)->type_name("FILE");
}

std::string suffix_of(const std::string& file) {
  namespace fs = std::filesystem;
  constexpr std::array<std::string_view, 15> kFormats = {"text", "txt", "json", "jsonl", "ndjson",
                                                         "csv",  "tsv", "npy",  "npz",   "png",
                                                         "svg",  "pdf", "html", "conll", "marked"};
  if (std::ranges::find(kFormats, file) != kFormats.end()) {
    throw UsageError(
        fmt::format("expected the name of a file to write, found the format {}: name the file, "
                    "./{} if it has this very name",
                    in_quotes(file), file));
  }
  std::error_code ignored;
  const fs::file_type type = fs::status(file, ignored).type();
  const bool is_file = type == fs::file_type::regular || type == fs::file_type::not_found ||
                       type == fs::file_type::none;
  std::string suffix = is_file ? fs::path(file).extension().string() : "";
  for (char& character : suffix) {
    if (character >= 'A' && character <= 'Z') character = static_cast<char>(character + 32);
  }
  return suffix;
}

void refuse_suffix(const std::string& file, std::span<const std::string_view> known,
                   bool has_format) {
  throw UsageError(
      "--output", fmt::format("expected a name that ends in {}{}, found {}", fmt::join(known, ", "),
                              has_format ? ", or --format" : "", in_quotes(file)));
}

namespace {

template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  // A sign before it is what people write, and from_chars does not take it.
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// An option of a whole number that the predicate allows; `range` says which.
template <typename Number, typename Allows>
CLI::Option* whole(CLI::Option* option, const Allows& allows, const std::string& range) {
  const auto read = [allows, range](std::string& text) -> std::string {
    const auto number = parsed<Number>(text);
    if (!number || !allows(*number)) {
      return fmt::format("expected a whole number {}, found {}", range, in_quotes(text));
    }
    // CLI11 takes a number that begins with 0 for an octal one.
    text = std::to_string(*number);
    return "";
  };
  return option->transform(CLI::Validator(read, ""))->type_name("N");
}

}  // namespace

CLI::Option* limited(CLI::Option* option, Range range) {
  return whole<std::int64_t>(
      option, [range](std::int64_t one) { return one >= range.least && one <= range.most; },
      fmt::format("from {} to {}", range.least, range.most));
}

CLI::Option* not_negative(CLI::Option* option) {
  return whole<std::uint64_t>(
      option, [](std::uint64_t) { return true; }, "of at least 0");
}

CLI::Option* add_number(CLI::App& verb, const std::string& name, std::int64_t& value, Range range,
                        const std::string& description) {
  return limited(verb.add_option(name, value, description), range);
}

CLI::Option* add_number(CLI::App& verb, const std::string& name, std::optional<std::int64_t>& value,
                        Range range, const std::string& description) {
  return limited(verb.add_option(name, value, description), range);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  return parsed<std::int64_t>(text);
}

std::optional<double> real_number(std::string_view text) {
  const auto number = parsed<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

void check_room(const Tokenizer& tokenizer, std::int64_t max_length) {
  const std::int64_t around = std::ssize(tokenizer.encode("").ids);
  if (max_length == 0 || max_length > around) return;
  throw UsageError("--max-length",
                   fmt::format("expected at least {} tokens, one more than stand around a text, "
                               "found {}",
                               around + 1, max_length));
}

bool is_about_passages(const Error& error) { return error.option() == "passage_tokens"; }

CLI::Validator finite_number() {
  const auto check = [](const std::string& text) -> std::string {
    return real_number(text) ? "" : fmt::format("expected a number, found {}", in_quotes(text));
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_up_to(double most, bool is_below) {
  const auto check = [most, is_below](const std::string& text) -> std::string {
    const auto number = real_number(text);
    if (number && *number >= 0 && (is_below ? *number < most : *number <= most)) return "";
    return std::isinf(most)
               ? fmt::format("expected a number of at least 0, found {}", in_quotes(text))
               : fmt::format("expected a number from 0 to {}{}, found {}", is_below ? "below " : "",
                             most, in_quotes(text));
  };
  return CLI::Validator(check, "");
}

CLI::Validator share_above_0(bool is_below) {
  const auto check = [is_below](const std::string& text) -> std::string {
    const auto number = real_number(text);
    if (number && *number > 0 && (is_below ? *number < 1 : *number <= 1)) return "";
    return fmt::format("expected a number above 0 and {} 1, found {}", is_below ? "below" : "up to",
                       in_quotes(text));
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  const auto check = [choices](const std::string& text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
    return fmt::format("expected {}, found {}", fmt::join(choices, ", "), in_quotes(text));
  };
  return CLI::Validator(check, "");
}

bool is_picture(std::string_view name) {
  if (name.starts_with('.')) name.remove_prefix(1);
  return name == "png" || name == "svg" || name == "pdf";
}

std::string picture_advice(std::string_view function) {
  return fmt::format(
      "the program draws no pictures: use longformer_cpp.plot.{} in Python "
      "(pip install 'longformer-cpp[plot]')",
      function);
}

CLI::Validator no_picture(std::string_view function) {
  const auto check = [function](const std::string& text) -> std::string {
    return is_picture(text) ? picture_advice(function) : "";
  };
  return CLI::Validator(check, "");
}

void refuse_picture(CLI::App& verb, const std::string& name, std::string_view function) {
  const auto refuse = [name, function](const std::string&) {
    throw UsageError(name, picture_advice(function));
  };
  verb.add_option_function<std::string>(name, refuse)->group("");
}

CLI::Option* add_choice(CLI::App& verb, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& description) {
  return verb.add_option(name, value, description)->check(one_of(choices))->type_name("NAME");
}

CLI::Option* add_choices(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                         const std::vector<std::string>& choices, const std::string& description) {
  return verb.add_option(name, values, description)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(choices))
      ->type_name("LIST");
}

CLI::Option* add_repeatable(CLI::App& verb, const std::string& name,
                            std::vector<std::string>& values, const std::string& description) {
  return verb.add_option(name, values, description)->allow_extra_args(false)->type_name("TEXT");
}

}  // namespace longformer::cli
