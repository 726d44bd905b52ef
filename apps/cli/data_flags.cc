#include "data_flags.h"

#include <fmt/format.h>

#include <CLI/StringTools.hpp>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "flags.h"
#include "output.h"

namespace longformer::cli {

namespace {

/// "A,T,P,S" as the weights of the losses of questions over paragraphs.
std::string read_weights(const std::string& text, std::array<double, 4>& weights) {
  const std::vector<std::string> parts = CLI::detail::split(text, ',');
  bool good = parts.size() == weights.size();
  for (std::size_t i = 0; good && i < weights.size(); ++i) {
    const auto weight = real_number(parts[i]);
    good = weight && *weight >= 0;
    if (good) weights[i] = *weight;
  }
  return good ? ""
              : fmt::format("expected four numbers of at least 0, as in 1,1,1,1, found {}",
                            in_quotes(text));
}

constexpr const char* kMultiHopGroup = "Questions over paragraphs (multihop)";

}  // namespace

void add_data_options(CLI::App& verb, DataOptions& data) {
  add_choice(verb, "--format", data.format,
             {"jsonl", "json", "csv", "tsv", "fasttext", "imdb", "hyperpartisan", "conll", "text",
              "lines"},
             "jsonl, json (lists, SQuAD, TriviaQA, WikiHop), csv, tsv, fasttext, imdb (a folder "
             "per class), "
             "hyperpartisan, conll; text or lines for a masked LM (found out)");
  verb.add_option("--text-field", data.text_field, "field or column of the text (text)")
      ->type_name("NAME");
  verb.add_option("--pair-field", data.pair_field, "of the second text of a pair (text_pair)")
      ->type_name("NAME");
  verb.add_option("--label-field", data.label_field,
                  "of the label (label, labels; ner_tags, tags; answer); of CoNLL files the number "
                  "of the column, as with --text-field")
      ->type_name("NAME");
  add_choice(verb, "--problem-type", data.problem_type,
             {"single_label_classification", "multi_label_classification", "regression"},
             "classify: what the labels are (that of the model's head, else found out)");
  verb.add_option("--columns", data.columns, "columns of a CSV or TSV file without a header")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  verb.add_flag_callback(
      "--no-quotes", [&data] { data.quotes = false; }, "quotes in CSV and TSV files are text");
  verb.add_option("--delimiter", data.delimiter,
                  "what is between the fields of CSV and TSV files, as ; or tab (comma, tab)")
      ->transform(CLI::Validator(
          [](std::string& text) -> std::string {
            if (text == "tab" || text == "\\t") text = "\t";
            const bool is_one = text.size() == 1 && text != "\"" && text != "\n" && text != "\r";
            if (is_one && static_cast<unsigned char>(text[0]) < 0x80) return "";
            return "expected one character, or tab, found " + in_quotes(text);
          },
          ""))
      ->type_name("C");
  add_encoding(verb, data.encoding);
}

void add_text_options(CLI::App& verb, DataOptions& data) {
  add_choice(verb, "--format", data.format, {"text", "lines", "jsonl", "json"},
             "a document is a file (text), each of its lines (lines), or an object (jsonl, json) "
             "(by the ending; else text)");
  verb.add_option("--text-field", data.text_field, "field of the text in objects (text)")
      ->type_name("NAME");
  add_encoding(verb, data.encoding);
}

void add_coreference(CLI::App& verb, CoreferenceOptions& options, CoreferenceUse use) {
  constexpr const char* kGroup = "Coreference";
  add_choice(
      verb, "--segments", options.segments, {"overlapping", "independent", "continued"},
      "documents longer than the model: segments that overlap by --stride tokens (128), "
      "whole sentences one behind the other, or cut behind every so many tokens as fastcoref "
      "does it (that of the folder; overlapping)")
      ->group(kGroup);
  add_number(verb, "--max-segment-length", options.max_segment_tokens, {.least = 8},
             "longest segment in tokens (that of the folder; the model's)")
      ->group(kGroup);
  if (use == CoreferenceUse::using_it) return;
  add_number(verb, "--max-training-tokens", options.max_training_tokens, {.least = 8},
             "of longer documents a run of whole sentences is learnt, another one in every epoch "
             "(8192)")
      ->group(kGroup);
  add_number(verb, "--max-span-width", options.max_span_width, {.least = 1, .most = 1000},
             "new head: longest mention in words (30)")
      ->group(kGroup);
  verb.add_option("--top-lambda", options.top_lambda,
                  "new head: mentions that are kept for linking, as a share of the tokens (0.3 "
                  "where data have clusters of one mention, else 0.4)")
      ->check(number_up_to(10))
      ->type_name("X")
      ->group(kGroup);
  add_number(verb, "--head-size", options.head_size, {.least = 1, .most = 65536},
             "new head: width of its layers (twice the hidden size)")
      ->group(kGroup);
  verb.add_option("--mention-loss-weight", options.mention_loss,
                  "new head: weight of the loss of the mention scores; 0 learns links alone (1)")
      ->check(number_up_to(1000))
      ->type_name("X")
      ->group(kGroup);
}

void add_multi_hop_losses(CLI::App& verb, MultiHopOptions& options) {
  verb.add_option_function<std::string>(
          "--loss-weights",
          [&options](const std::string& text) { read_weights(text, options.loss_weights); },
          "weights of the losses of answer spans, types of answer, paragraphs and sentences "
          "(1,1,1,1)")
      ->check([](const std::string& text) {
        std::array<double, 4> weights = {};
        return read_weights(text, weights);
      })
      ->type_name("A,T,P,S")
      ->group(kMultiHopGroup);
}

void add_evidence(CLI::App& verb, MultiHopOptions& options) {
  add_number(verb, "--evidence-paragraphs", options.evidence_paragraphs, {.least = 0},
             "paragraphs that the evidence is of, all sentences above 0 and always the best one; "
             "0: every sentence above 0 (2)")
      ->group(kMultiHopGroup);
}

void add_embedding_training(CLI::App& verb, EmbeddingTrainingOptions& options) {
  constexpr const char* kGroup = "Vectors of texts (embedding)";
  static const std::map<std::string, EmbeddingLoss> losses = {
      {"contrastive", EmbeddingLoss::contrastive},
      {"triplet", EmbeddingLoss::triplet},
      {"cosine", EmbeddingLoss::cosine},
      {"distillation", EmbeddingLoss::distillation}};
  verb.add_option_function<std::string>(
          "--loss", [&options](const std::string& name) { options.loss = losses.at(name); },
          "contrastive: an anchor's positive among all texts of the batch; triplet; cosine: near "
          "the score; distillation: the teacher's vectors alone (cosine with scores, contrastive "
          "with anchors or questions, else distillation)")
      ->check(one_of({"contrastive", "triplet", "cosine", "distillation"}))
      ->type_name("contrastive|triplet|cosine|distillation")
      ->group(kGroup);
  verb.add_option("--temperature", options.temperature,
                  "contrastive: cosines are divided by it (0.05)")
      ->check(number_up_to(1000))
      ->type_name("T")
      ->group(kGroup);
  verb.add_flag("--symmetric", options.symmetric,
                "contrastive: also the anchor of each positive among the anchors")
      ->group(kGroup);
  verb.add_option("--margin", options.margin, "triplet: by how much a negative is farther away (5)")
      ->check(number_up_to(1e6))
      ->type_name("X")
      ->group(kGroup);
  verb.add_option("--teacher", options.teacher,
                  "model whose vectors of the same texts are learned, those of passages by "
                  "themselves; beside another loss, added to it (none)")
      ->type_name("FOLDER")
      ->group(kGroup);
  verb.add_option("--distillation-weight", options.distillation_weight,
                  "factor of the distillation beside another loss (1)")
      ->check(number_up_to(1e9))
      ->type_name("X")
      ->group(kGroup);
  add_number(verb, "--passage-tokens", options.passage_tokens, {.least = 1},
             "cut documents without \"passages\" into passages of so many tokens, whose vectors "
             "come from the states of the document (a document has one vector)")
      ->group(kGroup);
}

void add_trivia(CLI::App& verb, TriviaOptions& options, bool for_training) {
  constexpr const char* kGroup = "TriviaQA";
  verb.add_option("--evidence", options.evidence,
                  "folder of the documents, with wikipedia and web in it (../evidence of the file)")
      ->type_name("FOLDER")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--answer-matching",
          [&options](const std::string& name) {
            options.matching =
                name == "substring" ? AnswerMatching::substring : AnswerMatching::words;
          },
          "where an answer stands: runs of whole words that the metric takes as right, or, as the "
          "authors have it, the same characters anywhere (words)")
      ->check(one_of({"words", "substring"}))
      ->type_name("words|substring")
      ->group(kGroup);
  add_number(verb, "--max-question-tokens", options.max_question_tokens, {.least = 1},
             fmt::format("what is read of a question ({})", options.max_question_tokens))
      ->group(kGroup);
  if (!for_training) return;
  verb.add_option_function<std::string>(
          "--answer-loss",
          [&options](const std::string& name) {
            options.loss = name == "first" ? AnswerLoss::first : AnswerLoss::any;
          },
          "of a document: −log of the probability of all right spans together, or that of the "
          "first one in it (or)")
      ->check(one_of({"or", "first"}))
      ->type_name("or|first")
      ->group(kGroup);
}

void add_masking(CLI::App& verb, MaskingOptions& masking) {
  verb.add_option("--mlm-probability", masking.probability,
                  "masked LM: share of the tokens to guess (0.15)")
      ->check(share_above_0())
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
