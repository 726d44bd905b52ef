// Common parts of the verbs: flags, the model folder, help, and mistakes in using them.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "inputs.h"
#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/text.h"
#include "messages.h"

namespace longformer::cli {

/// Wrong use of the program: one line on stderr and exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// About the value of an option, such as "--top-k"; the message names both.
  UsageError(const std::string& option, const std::string& reason)
      : std::runtime_error(option + ": " + reason), option_(option), reason_(reason) {}

  /// The option; empty: the message is about none alone.
  const std::string& option() const { return option_; }
  const std::string& reason() const { return reason_; }

 private:
  std::string option_, reason_;
};

/// The work that the command line asks for; set while it is parsed.
using Action = std::function<void(Messages&)>;

/// ".json" for "a/b.JSON"; empty where there is none, and for devices and pipes.
std::string suffix_of(const std::string& file);
/// Throws UsageError about --output, which tells of --format where the verb has that.
[[noreturn]] void refuse_suffix(const std::string& file, std::span<const std::string_view> known,
                                bool has_format = true);

struct VerbText {
  std::string name;
  /// One sentence, and what more there is to know.
  std::string description;
  std::string details = {};
  /// Command lines that work, one per line.
  std::string examples;
};

/// A subcommand whose help ends with examples and exit codes.
CLI::App& add_verb(CLI::App& program, const VerbText& text);

struct ModelFlags {
  std::string model;
  /// The folder of an adapter of the model; empty: none.
  std::string adapter;
  std::string dtype = "fp32";
  std::string device = "cpu";
  std::vector<std::string> int8_skip;
  std::int64_t threads = 0;
  bool json = false;
  /// The file of --output; empty: stdout.
  std::string output;

  /// Options with notes of the library among the messages, which must outlive the model.
  LoadOptions load_options(Messages& messages) const {
    return {.dtype = dtype,
            .int8_skip = int8_skip,
            .device = device,
            .threads = static_cast<int>(threads),
            .adapter = adapter,
            .note = [&messages](const std::string& text) { messages.note(text); }};
  }
  /// The folder of the model; see longformer::find_model.
  std::string folder() const;
  /// The folder of a model of tokens. Throws Error for the folder of a character language model,
  /// with the verbs that run it.
  std::string token_model_folder() const;
  /// The folder of an encoder, alone.
  std::string encoder_folder() const;
};

CLI::Option* add_model(CLI::App& verb, ModelFlags& flags);
void add_json(CLI::App& verb, ModelFlags& flags);
/// --json, and --output for the forms of Results.
void add_results(CLI::App& verb, ModelFlags& flags);
void add_threads(CLI::App& verb, std::int64_t& threads);
/// --adapter, --dtype, --int8-skip and --threads.
void add_compute(CLI::App& verb, ModelFlags& flags);
/// --device, for verbs that run encoders.
void add_device(CLI::App& verb, ModelFlags& flags);
/// An option --device that help leaves out, and that is refused: what the verb does runs on the
/// CPU.
void refuse_device(CLI::App& verb, std::string_view what);
/// The help ends with `more`.
void add_int8_skip(CLI::App& verb, std::vector<std::string>& layers, const std::string& more = {});
/// FILES, --text, --lines, --shard and the options of tables.
void add_inputs(CLI::App& verb, InputOptions& inputs);
/// --lines, and the options of tables as trainings have them: --text-field (once called --field),
/// --id-field, --columns, --no-quotes, --delimiter and --encoding.
void add_tables(CLI::App& verb, InputOptions& inputs);
/// --encoding, of files and stdin.
CLI::Option* add_encoding(CLI::App& verb, TextEncoding& encoding);
/// -o and --output: the file to write, whose name chooses among the formats that end it. "-" is
/// stdout, as if there were none.
CLI::Option* add_output(CLI::App& verb, std::string& output, const std::string& description);

/// A format by the name of its files and by --format.
template <typename Format>
struct NamedFormat {
  std::string_view suffix, name;
  Format format;
};

/// The one whose suffix a file has, in any case; null for a name without a suffix. Throws
/// UsageError with the suffixes that there are for any other.
template <typename Format, std::size_t count>
const NamedFormat<Format>* format_of_output(const std::string& output,
                                            const std::array<NamedFormat<Format>, count>& formats) {
  std::vector<std::string_view> suffixes;
  const std::string suffix = suffix_of(output);
  for (const NamedFormat<Format>& known : formats) {
    if (suffix == known.suffix) return &known;
    suffixes.push_back(known.suffix);
  }
  if (!suffix.empty()) refuse_suffix(output, suffixes);
  return nullptr;
}

/// The values that a number may take.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = std::int64_t{1} << 30;
};

/// An option that takes a whole number of the range.
CLI::Option* limited(CLI::Option* option, Range range);
CLI::Option* add_number(CLI::App& verb, const std::string& name, std::int64_t& value, Range range,
                        const std::string& description);
/// A number that need not be given.
CLI::Option* add_number(CLI::App& verb, const std::string& name, std::optional<std::int64_t>& value,
                        Range range, const std::string& description);
/// The number that a whole text is, a finite one; absent for anything else.
std::optional<std::int64_t> whole_number(std::string_view text);
std::optional<double> real_number(std::string_view text);
/// Throws UsageError about --max-length where nothing but special tokens would have room; 0 is no
/// limit.
void check_room(const Tokenizer& tokenizer, std::int64_t max_length);
/// Whether passages cannot be as long as was asked for, which is no fault of a document.
bool is_about_passages(const Error& error);
/// An option that takes a whole number from 0 to 2^64 - 1.
CLI::Option* not_negative(CLI::Option* option);
/// Takes the text of an option: any finite number.
CLI::Validator finite_number();
/// Takes the text of an option: a finite number from 0 to `most`, which may be infinite, or below
/// it.
CLI::Validator number_up_to(double most, bool is_below = false);
/// Takes the text of an option: a number above 0 and up to 1, or below 1.
CLI::Validator share_above_0(bool is_below = false);
/// Takes the text of an option: one of the choices.
CLI::Validator one_of(const std::vector<std::string>& choices);
/// Why an option that asks for a picture is refused: which function of longformer_cpp.plot draws
/// it.
std::string picture_advice(std::string_view function);
/// Takes the name of a format: any but those of pictures.
CLI::Validator no_picture(std::string_view function);
/// An option that asks for a picture; help leaves it out, and it is refused.
void refuse_picture(CLI::App& verb, const std::string& name, std::string_view function);
/// Whether a file's suffix or a format's name is that of a picture: png, svg or pdf.
bool is_picture(std::string_view name);
/// One of the choices.
CLI::Option* add_choice(CLI::App& verb, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& description);
/// A comma-separated list of choices.
CLI::Option* add_choices(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                         const std::vector<std::string>& choices, const std::string& description);
/// An option that may be repeated and takes one value each time.
CLI::Option* add_repeatable(CLI::App& verb, const std::string& name,
                            std::vector<std::string>& values, const std::string& description);

}  // namespace longformer::cli
