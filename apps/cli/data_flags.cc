#include "data_flags.h"

#include <fmt/format.h>

#include <CLI/TypeTools.hpp>
#include <string>

#include "flags.h"

namespace longformer::cli {

namespace {

std::string share(const std::string& text) {
  double value = 0;
  const bool is_number = CLI::detail::lexical_cast(text, value);
  return is_number && value > 0 && value <= 1
             ? ""
             : fmt::format("expected a number above 0 and up to 1, found '{}'", text);
}

}  // namespace

void add_data_options(CLI::App& verb, DataOptions& data) {
  add_choice(verb, "--format", data.format,
             {"jsonl", "json", "csv", "tsv", "fasttext", "imdb", "hyperpartisan", "conll", "text",
              "lines"},
             "jsonl, json (lists, SQuAD, WikiHop), csv, tsv, fasttext, imdb (a folder per class), "
             "hyperpartisan, conll; text or lines for a masked LM (found out)");
  verb.add_option("--text-field", data.text_field, "field or column of the text (text)")
      ->type_name("NAME");
  verb.add_option("--pair-field", data.pair_field, "of the second text of a pair (text_pair)")
      ->type_name("NAME");
  verb.add_option("--label-field", data.label_field,
                  "of the label (label, labels; ner_tags, tags; answer)")
      ->type_name("NAME");
  verb.add_option("--columns", data.columns, "columns of a CSV or TSV file without a header")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  verb.add_flag_callback(
      "--no-quotes", [&data] { data.quotes = false; }, "quotes in CSV and TSV files are text");
}

void add_text_options(CLI::App& verb, DataOptions& data) {
  add_choice(verb, "--format", data.format, {"text", "lines", "jsonl", "json"},
             "a document is a file (text), each of its lines (lines), or an object (jsonl, json) "
             "(by the ending; else text)");
  verb.add_option("--text-field", data.text_field, "field of the text in objects (text)")
      ->type_name("NAME");
}

void add_masking(CLI::App& verb, MaskingOptions& masking) {
  verb.add_option("--mlm-probability", masking.probability,
                  "masked LM: share of the tokens to guess (0.15)")
      ->check(share)
      ->type_name("P");
  add_number(verb, "--mask-every", masking.every, {.least = 1},
             "masked LM: guess every N-th token instead, when evaluating");
  add_number(verb, "--max-seq-length", masking.row_tokens, {.least = 1},
             "masked LM: tokens of a row (what the model takes)");
  verb.add_flag_callback(
      "--separate-documents", [&masking] { masking.across_documents = false; },
      "masked LM: no row holds tokens of two documents");
}

}  // namespace longformer::cli
