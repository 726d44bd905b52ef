// longformer classify: the classes of documents.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "document_stream.h"
#include "explanation/explain.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct ClassifyFlags {
  ModelFlags model;
  InputOptions inputs;
  std::int64_t top_k = 1;
  ClassifyOptions options;
  ExplainFlags explain;
};

class ClassifyRun {
 public:
  ClassifyRun(const ClassifyFlags& flags, Messages& messages)
      : flags_(flags),
        documents_(flags.inputs, flags.model, messages, {}, true),
        classifier_(
            Classifier::load(flags.model.encoder_folder(), flags.model.load_options(messages))),
        ids_(documents_.results().form() == ResultForm::array ? flags.model.output : "") {
    const std::vector<std::string>& labels = classifier_.model().info().labels;
    columns_ = columns(labels);
    documents_.results().set_columns(columns_of_documents(columns_));
    if (documents_.results().form() != ResultForm::array) return;
    array_.emplace(documents_.output(), std::ssize(labels));
    documents_.write_failures([this](const Document& document, const std::string&) {
      const std::size_t classes = classifier_.model().info().labels.size();
      add_row(document, std::vector<float>(classes, std::numeric_limits<float>::quiet_NaN()));
    });
  }

  void run() {
    const auto classify = [this](const auto& next, const Classifier::Sink& sink) {
      const auto input = [&next]() -> std::optional<ClassifyInput> {
        auto text = next();
        if (!text) return std::nullopt;
        return ClassifyInput{.text = std::move(*text)};
      };
      classifier_.classify(input, sink, flags_.options);
    };
    documents_.stream<ClassifyOutcome>(
        classify, [this](const Document& document, const ClassifyOutcome& outcome) {
          say(document, outcome.classification);
          return outcome.classification.tokens;
        });
    if (array_) array_->finish();
    ids_.finish();
    documents_.results().finish();
  }

 private:
  void say(const Document& document, const Classification& result) {
    documents_.note_length(document, result.tokens, result.truncated, result.segments);
    if (array_) return add_row(document, by_class(result));
    if (documents_.results().is_table()) return documents_.results().add(row_of(document, result));
    if (documents_.results().has_rows()) {
      return documents_.results().add(document.json().add_members(to_json(result, flags_.top_k)));
    }
    std::span<const ClassScore> best = result.scores;
    if (flags_.top_k > 0) {
      best = best.first(std::min(static_cast<std::size_t>(flags_.top_k), best.size()));
    }
    std::string line = document.field();
    for (const ClassScore& one : best) {
      line += fmt::format("\t{}\t{:.4f}", on_one_line(one.label), one.score);
    }
    documents_.output().write(line + '\n');
  }

  /// The name of the column of the class at a place from 1 on, where so many are asked for.
  static std::string numbered(const char* name, std::int64_t place) {
    return place == 1 ? name : fmt::format("{}_{}", name, place);
  }

  /// The columns of a table: the best classes with their scores, and with all classes one for each.
  std::vector<std::string> columns(const std::vector<std::string>& labels) const {
    std::vector<std::string> all;
    const std::int64_t shown =
        std::min(std::max<std::int64_t>(flags_.top_k, 1), std::ssize(labels));
    for (std::int64_t place = 1; place <= shown; ++place) {
      all.push_back(numbered("label", place));
      all.push_back(numbered("score", place));
    }
    all.insert(all.end(), {"tokens", "truncated", "segments"});
    if (flags_.top_k > 0) return all;
    const std::vector<std::string> others = columns_of_documents(all);
    for (const std::string& label : labels) {
      const bool is_taken = std::ranges::find(others, label) != others.end();
      all.push_back(is_taken ? "class " + label : label);
    }
    return all;
  }

  /// The scores in the order of the model.
  std::vector<float> by_class(const Classification& result) const {
    std::vector<float> scores;
    for (const std::string& label : classifier_.model().info().labels) {
      scores.push_back(std::ranges::find(result.scores, label, &ClassScore::label)->score);
    }
    return scores;
  }

  JsonLine row_of(const Document& document, const Classification& result) const {
    JsonLine row = document.json();
    std::size_t column = 0;
    for (const ClassScore& one : result.scores) {
      if (columns_[column] == "tokens") break;
      row.add(columns_[column], one.label).add(columns_[column + 1], one.score);
      column += 2;
    }
    row.add("tokens", result.tokens).add("truncated", result.truncated);
    row.add("segments", result.segments);
    if (flags_.top_k > 0) return row;
    column += 3;
    auto classes = nlohmann::ordered_json::object();
    for (const float score : by_class(result)) {
      classes[columns_[column++]] = nlohmann::ordered_json::parse(fmt::format("{}", score));
    }
    return row.add_members(classes.dump());
  }

  void add_row(const Document& document, const std::vector<float>& scores) {
    array_->write_rows(scores);
    ids_.add(document, 1);
  }

  const ClassifyFlags& flags_;
  DocumentStream documents_;
  Classifier classifier_;
  /// Those of a table that are the verb's own.
  std::vector<std::string> columns_;
  /// The array of .npy and the ids of its rows.
  std::optional<NpyWriter> array_;
  RowIds ids_;
};

}  // namespace

void add_classify(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ClassifyFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "classify",
       .description = "Say which class documents belong to.",
       .details = "The model needs a sequence-classification head. Scores are probabilities over "
                  "all classes, or of each class by itself for a multi-label model, or the numbers "
                  "of a regression, as the folder says.",
       .examples =
           "longformer classify MODEL reviews/*.txt\n"
           "longformer classify MODEL novel.txt --stride 512 --merge max\n"
           "longformer classify MODEL reviews.csv --text-field review --top-k all -o classes.csv\n"
           "longformer classify MODEL review.txt --explain integrated -o why.html"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_number(verb, "--top-k", flags->top_k, {.least = 0, .most = 1 << 20},
             "classes per document, best first; 0 or all prints all (1)")
      ->transform([](const std::string& text) { return text == "all" ? "0" : text; });
  add_fields(verb, fields(flags->options));
  add_explain(verb, flags->explain);
  add_results(verb, flags->model);
  verb.get_option("--output")
      ->description(
          "write to this file instead of stdout; .jsonl, .json, .csv, .tsv and .npy (scores of all "
          "classes) "
          "choose the form, .txt and others are text; with --explain also .html, a page of one "
          "document, and no .npy");
  add_compute(verb, flags->model);
  add_device(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) {
      if (flags->explain.is_wanted()) {
        return run_explain(
            {flags->explain, flags->model, flags->inputs, flags->options, flags->top_k}, messages);
      }
      ClassifyRun(*flags, messages).run();
    };
  });
}

}  // namespace longformer::cli
