#include "options.h"

#include <algorithm>
#include <string>
#include <vector>

namespace longformer {

void take_data(Keywords& keywords, DataOptions& data) {
  keywords.take("format", data.format).take("text_field", data.text_field);
  keywords.take("pair_field", data.pair_field).take("label_field", data.label_field);
  keywords.take("problem_type", data.problem_type);
  keywords.take("columns", data.columns).take_not("no_quotes", data.quotes);
  keywords.take("delimiter", data.delimiter).take("encoding", data.encoding.name);
  keywords.take("skip_invalid", data.skip_invalid);
}

void take_singletons(Keywords& keywords, bool& without) {
  bool singletons = true;
  keywords.take("no_singletons", without).take("singletons", singletons);
  without = without || !singletons;
}

void take_tasks(Keywords& keywords, DataOptions& data) {
  keywords.take("segments", data.coreference.segments);
  keywords.take("max_segment_length", data.coreference.max_segment_tokens);
  take_singletons(keywords, data.coreference.without_singletons);
  keywords.take("evidence_paragraphs", data.multi_hop.evidence_paragraphs);
  keywords.take("evidence", data.trivia.evidence);
  keywords.choose<AnswerMatching>(
      "answer_matching", data.trivia.matching,
      {{"words", AnswerMatching::words}, {"substring", AnswerMatching::substring}});
  keywords.take("max_question_tokens", data.trivia.max_question_tokens);
}

void take_training_tasks(Keywords& keywords, DataOptions& data) {
  take_tasks(keywords, data);
  CoreferenceOptions& coreference = data.coreference;
  keywords.take("max_training_tokens", coreference.max_training_tokens);
  keywords.take("max_span_width", coreference.max_span_width);
  keywords.take("top_lambda", coreference.top_lambda).take("head_size", coreference.head_size);
  keywords.take("mention_loss_weight", coreference.mention_loss);
  keywords.choose<AnswerLoss>("answer_loss", data.trivia.loss,
                              {{"or", AnswerLoss::any}, {"first", AnswerLoss::first}});
  const nb::object weights = keywords.take_object("loss_weights");
  if (!weights.is_none()) {
    std::vector<double> values;
    if (!nb::try_cast(weights, values) || values.size() != data.multi_hop.loss_weights.size()) {
      throw nb::type_error("finetune: loss_weights: expected a list of four numbers");
    }
    std::copy(values.begin(), values.end(), data.multi_hop.loss_weights.begin());
  }
  EmbeddingTrainingOptions& vectors = data.embedding;
  if (!keywords.take_object("loss").is_none()) {
    EmbeddingLoss loss = EmbeddingLoss::contrastive;
    keywords.choose<EmbeddingLoss>("loss", loss,
                                   {{"contrastive", EmbeddingLoss::contrastive},
                                    {"triplet", EmbeddingLoss::triplet},
                                    {"cosine", EmbeddingLoss::cosine},
                                    {"distillation", EmbeddingLoss::distillation}});
    vectors.loss = loss;
  }
  keywords.take("temperature", vectors.temperature).take("symmetric", vectors.symmetric);
  keywords.take("margin", vectors.margin).take("teacher", vectors.teacher);
  keywords.take("distillation_weight", vectors.distillation_weight);
  keywords.take("passage_tokens", vectors.passage_tokens);
}

void take_masking(Keywords& keywords, MaskingOptions& masking) {
  keywords.take("mlm_probability", masking.probability).take("mask_every", masking.every);
  keywords.take("max_seq_length", masking.row_tokens);
  keywords.take_not("separate_documents", masking.across_documents);
}

void take_training(Keywords& keywords, TrainingOptions& options) {
  keywords.take("output_dir", options.output_dir);
  keywords.take("overwrite_output_dir", options.overwrite_output_dir);
  keywords.take("per_device_train_batch_size", options.per_device_train_batch_size);
  keywords.take("gradient_accumulation_steps", options.gradient_accumulation_steps);
  keywords.take("num_train_epochs", options.num_train_epochs).take("max_steps", options.max_steps);
  keywords.take("optim", options.optim).take("learning_rate", options.learning_rate);
  keywords.take("weight_decay", options.weight_decay).take("adam_beta1", options.adam_beta1);
  keywords.take("adam_beta2", options.adam_beta2).take("adam_epsilon", options.adam_epsilon);
  keywords.take("adafactor_relative_step", options.adafactor_relative_step);
  keywords.take("max_grad_norm", options.max_grad_norm);
  keywords.take("lr_scheduler_type", options.lr_scheduler_type);
  keywords.take("warmup_steps", options.warmup_steps).take("warmup_ratio", options.warmup_ratio);
  keywords.take("lr_power", options.lr_power).take("lr_end", options.lr_end);
  keywords.take("logging_steps", options.logging_steps);
  keywords.take("eval_strategy", options.eval_strategy).take("eval_steps", options.eval_steps);
  keywords.take("save_strategy", options.save_strategy).take("save_steps", options.save_steps);
  keywords.take("save_total_limit", options.save_total_limit);
  keywords.take("load_best_model_at_end", options.load_best_model_at_end);
  keywords.take("metric_for_best_model", options.metric_for_best_model);
  keywords.take("greater_is_better", options.greater_is_better);
  keywords.take("early_stopping_patience", options.early_stopping_patience);
  keywords.take("early_stopping_threshold", options.early_stopping_threshold);
  keywords.take("seed", options.seed).take("dtype", options.dtype);
  keywords.take("gradient_checkpointing", options.gradient_checkpointing);
  keywords.take("lora_rank", options.lora_rank).take("lora_alpha", options.lora_alpha);
  keywords.take("lora_target", options.lora_target).take("lora_dropout", options.lora_dropout);
  keywords.take("adapter", options.adapter).take("threads", options.threads);
  keywords.take("label_smoothing_factor", options.label_smoothing_factor);
  bool bf16 = false;
  keywords.take("bf16", bf16);
  if (bf16) options.dtype = "bf16";
  // True is what transformers has for the last checkpoint.
  const nb::object resume = keywords.take_object("resume_from_checkpoint");
  if (PyBool_Check(resume.ptr())) {
    options.resume_from_checkpoint = resume.is(nb::handle(Py_True)) ? "last" : "";
  } else {
    keywords.take("resume_from_checkpoint", options.resume_from_checkpoint);
  }
}

}  // namespace longformer
