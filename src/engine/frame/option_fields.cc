// The options of data sets, described; those of the tasks come from the table.
#include "core/option_fields.h"

#include <string>
#include <utility>

#include "engine/frame/table.h"
#include "longformer/options.h"
#include "longformer/text.h"

namespace longformer {
namespace {

OptionField delimiter_field(std::string& delimiter) {
  const auto read = [&delimiter](const std::string& text) {
    const std::string meant = text == "tab" || text == "\\t" ? "\t" : text;
    const bool is_one = meant.size() == 1 && meant != "\"" && meant != "\n" && meant != "\r";
    require(is_one && static_cast<unsigned char>(meant[0]) < 0x80,
            "expected one character, or tab, found '{}'", text);
    delimiter = meant;
  };
  return {.name = "delimiter",
          .value = OptionField::Text{read, [&delimiter] { return delimiter; }},
          .help = "delimiter of the fields of CSV and TSV files, as ; or tab (by the first line)",
          .type = "C"};
}

}  // namespace

OptionField encoding_field(TextEncoding& encoding) {
  const auto read = [&encoding](const std::string& text) {
    try {
      check(TextEncoding{.name = text, .note = {}});
    } catch (const Error&) {
      fail("expected utf-8, latin-1, utf-16, auto or another name that iconv knows, found '{}'",
           text);
    }
    encoding.name = text;
  };
  return {.name = "encoding",
          .value = OptionField::Text{read, [&encoding] { return encoding.name; }},
          .help =
              "encoding of the files: utf-8, latin-1, utf-16, another name that iconv knows, "
              "or auto: what a byte-order mark says, else UTF-8 where it is that, else "
              "windows-1252 ({})",
          .type = "NAME"};
}

OptionFields fields(DataOptions& options) {
  return {
      {.name = "format",
       .value = &options.format,
       .help = "jsonl, json (lists, SQuAD, TriviaQA, WikiHop), csv, tsv, fasttext, imdb (a folder "
               "per class), hyperpartisan, conll; text or lines for a masked LM (found out)",
       .choices = {"jsonl", "json", "csv", "tsv", "fasttext", "imdb", "hyperpartisan", "conll",
                   "text", "lines"}},
      {.name = "text_field",
       .value = &options.text_field,
       .help = "field or column of the text ({})",
       .type = "NAME"},
      {.name = "id_field",
       .value = &options.id_field,
       .help = "field or column of the id, which results name (id, _id)",
       .type = "NAME"},
      {.name = "pair_field",
       .value = &options.pair_field,
       .help = "of the second text of a pair ({})",
       .type = "NAME"},
      {.name = "label_field",
       .value = &options.label_field,
       .help = "of the label (label, labels; ner_tags, tags; answer); of CoNLL files the number of "
               "the column, as with --text-field",
       .type = "NAME"},
      {.name = "problem_type",
       .value = &options.problem_type,
       .help = "classify: what the labels are (that of the model's head, else found out)",
       .choices = {"single_label_classification", "multi_label_classification", "regression"}},
      {.name = "columns",
       .value = &options.columns,
       .help = "columns of a CSV or TSV file without a header",
       .type = "LIST"},
      {.name = "no_quotes",
       .value = &options.quotes,
       .help = "quotes in CSV and TSV files are text",
       .is_contrary = true},
      delimiter_field(options.delimiter),
      encoding_field(options.encoding),
  };
}

OptionFields table_fields(DataOptions& options) {
  return only(fields(options),
              {"text_field", "id_field", "columns", "no_quotes", "delimiter", "encoding"});
}

OptionFields text_fields(DataOptions& options) {
  return {
      {.name = "format",
       .value = &options.format,
       .help =
           "a document is a file (text), each of its lines (lines), an object (jsonl, json) or a "
           "row (csv, tsv) (by the ending; else text)",
       .choices = {"text", "lines", "jsonl", "json", "csv", "tsv"}},
      {.name = "text_field",
       .value = &options.text_field,
       .help = "field or column of the text ({})",
       .type = "NAME"},
      delimiter_field(options.delimiter),
      encoding_field(options.encoding),
  };
}

OptionFields task_fields(DataOptions& options, OptionUse use) {
  OptionFields all;
  for (const engine::Task* task : engine::all_tasks()) append(all, task->options(options, use));
  return all;
}

}  // namespace longformer
