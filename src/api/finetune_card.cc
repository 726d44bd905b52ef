#include "api/finetune_card.h"

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "formats/weights.h"
#include "training/model_card.h"

namespace longformer {
namespace {

/// Names of the Hub for what a verb of `finetune` trains.
struct HubNames {
  std::string_view verb, pipeline;
};
constexpr std::array kHubNames = std::to_array<HubNames>({
    {"classify", "text-classification"},
    {"ner", "token-classification"},
    {"qa", "question-answering"},
    {"trivia", "question-answering"},
    {"choose", "multiple-choice"},
    {"seq2seq", "summarization"},
    {"embedding", "sentence-similarity"},
    {"rerank", "text-ranking"},
});

std::string pipeline_of(std::string_view verb) {
  for (const HubNames& one : kHubNames) {
    if (one.verb == verb) return std::string(one.pipeline);
  }
  return {};
}

std::string library_of(const TrainingOptions& training, std::string_view verb) {
  if (training.lora_rank > 0 || !training.adapter.empty()) return "peft";
  return verb == "embedding" || verb == "rerank" ? "sentence-transformers" : "transformers";
}

std::string folder_name(const TrainingOptions& training) {
  return training::public_name(training.output_dir);
}

}  // namespace

std::string model_card(const CardFacts& facts, const FinetuneOptions& options,
                       const engine::Task& task, const TrainingResult& result) {
  const std::string verb(task.names().verb);
  const std::string pipeline = pipeline_of(verb);
  training::ModelCard card = {.verb = "finetune",
                              .task = verb,
                              .name = folder_name(options.training),
                              .base = facts.is_drawn ? "" : training::public_name(facts.folder),
                              .library = library_of(options.training, verb),
                              .pipeline = pipeline,
                              .tags = {"longformer.cpp", facts.model_type, verb}};
  const auto add = [&card](const char* what, const FinetuneData& data, const std::string& file) {
    const std::string name = what;
    if (!file.empty()) card.data.emplace_back(name + " file", training::public_name(file));
    card.data.emplace_back(name + " examples", std::to_string(data.examples));
    card.data.emplace_back(name + " tokens", std::to_string(data.tokens));
  };
  add("training", facts.training, options.train_path);
  if (facts.validation) add("validation", *facts.validation, options.validation_path);
  for (std::size_t i = 0; i < facts.training.label_counts.size(); ++i) {
    card.labels.emplace_back(facts.training.labels[i],
                             std::to_string(facts.training.label_counts[i]));
  }
  FinetuneOptions shown = options, usual;
  return training::text_of(card, fields(shown), fields(usual), result);
}

std::string model_card(const std::string& folder, const std::string& model_type,
                       const MaskedLmTraining& options, const engine::CollationReport& rows,
                       const TrainingResult& result) {
  training::ModelCard card = {
      .verb = "pretrain-mlm",
      .name = folder_name(options.training),
      .base = formats::has_weights(folder) ? training::public_name(folder) : "",
      .library = library_of(options.training, ""),
      .pipeline = "fill-mask",
      .tags = {"longformer.cpp", model_type}};
  for (const std::string& file : options.train_files) {
    card.data.emplace_back("training file", training::public_name(file));
  }
  card.data.emplace_back("documents", std::to_string(rows.documents));
  card.data.emplace_back("tokens", std::to_string(rows.tokens));
  MaskedLmTraining shown = options, usual;
  return training::text_of(card, fields(shown), fields(usual), result);
}

}  // namespace longformer
