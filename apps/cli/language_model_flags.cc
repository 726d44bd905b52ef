#include "language_model_flags.h"

#include <fmt/format.h>

#include <numeric>
#include <span>
#include <vector>

#include "flags.h"
#include "option_flags.h"
#include "output.h"
#include "usage.h"

namespace longformer::cli {
void LanguageModelEvaluationFlags::add(CLI::App& verb) {
  const OptionFields all = fields(evaluation_);
  add_fields(verb, all);
  for (const OptionField& field : all) options_.push_back(verb.get_option(flag_of(field.name)));
  protocol_[0] = verb.get_option("--window-characters");
  protocol_[1] = verb.get_option("--step-characters");
  options_.push_back(verb.add_option("--losses", losses_,
                                     "also write the loss of every character to this file: .jsonl "
                                     "(also without an ending), .json, .csv or .tsv")
                         ->type_name("FILE"));
  for (CLI::Option* option : options_) option->group("Language models");
  refuse_picture(verb, "--shares-picture", "attention_shares");
}

std::string LanguageModelEvaluationFlags::given() const {
  for (const CLI::Option* option : options_) {
    if (option->count() > 0) return option->get_name();
  }
  return "";
}

LanguageModelEvaluation LanguageModelEvaluationFlags::options() const {
  LanguageModelEvaluation options = evaluation_;
  for (const CLI::Option* option : protocol_) {
    if (options.streaming && option->count() > 0) {
      throw UsageError(
          fmt::format("--streaming has no windows: {} does not go with it", option->get_name()));
    }
  }
  if (options.window > 0 && options.step > options.window) {
    throw UsageError("--step-characters", fmt::format("expected at most the window of {}, found {}",
                                                      options.window, options.step));
  }
  options.losses = !losses_.empty();
  return options;
}

namespace {

/// The spans of the heads of each layer.
void add_span_rows(const LanguageModelInfo& info, const auto& row) {
  row("longest span",
      fmt::format("{}, and a ramp of {}", grouped(info.max_span), grouped(info.span_ramp)));
  for (std::size_t layer = 0; layer < info.spans.size(); ++layer) {
    std::string heads;
    for (const double span : info.spans[layer]) {
      heads += fmt::format("{}{:.0f}", heads.empty() ? "" : ", ", span);
    }
    row(fmt::format("spans of layer {}", layer).c_str(), heads);
  }
}

}  // namespace

std::string language_model_info_text(const LanguageModelInfo& info, bool json) {
  if (json) {
    JsonLine line;
    line.add("model_type", "longformer-lm").add("attention", info.attention);
    line.add("positions", info.positions).add("alphabet", info.alphabet);
    if (!info.features.empty()) line.add("features", info.features);
    if (!info.pattern.empty()) line.add("pattern", info.pattern);
    line.add("parameters", info.parameters).add("layers", info.layers);
    if (!info.spans.empty()) {
      std::vector<float> spans;
      for (const std::vector<double>& layer : info.spans) {
        for (const double span : layer) spans.push_back(static_cast<float>(span));
      }
      line.add_rows("spans", spans, info.layers);
      line.add("max_span", info.max_span).add("span_ramp", info.span_ramp);
    }
    if (!info.windows.empty()) {
      line.add("windows", std::span<const std::int64_t>(info.windows));
      line.add("dilations", std::span<const std::int64_t>(info.dilations));
    } else if (info.segment_length > 0) {
      line.add("segment_length", info.segment_length).add("memory_length", info.memory_length);
      line.add("compressed_memory_length", info.compressed_memory_length);
      line.add("compression_rate", info.compression_rate);
    }
    line.add("receptive_field", info.receptive_field);
    return line.add("state_bytes", info.state_bytes).line();
  }
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<20}{}\n", name, value);
  };
  row("model type", "longformer-lm");
  row("attention", info.attention);
  if (!info.features.empty()) row("features", info.features);
  if (!info.pattern.empty()) row("pattern", info.pattern);
  row("positions", info.positions);
  row("alphabet", info.alphabet);
  row("parameters", grouped(info.parameters));
  row("layers", std::to_string(info.layers));
  if (!info.spans.empty()) add_span_rows(info, row);
  if (!info.windows.empty()) {
    row("windows", fmt::format("{}", fmt::join(info.windows, ", ")));
    row("dilations", fmt::format("{}", fmt::join(info.dilations, ", ")));
  } else if (info.segment_length > 0) {
    row("segment", grouped(info.segment_length));
    row("memory", grouped(info.memory_length));
  }
  if (info.compression_rate > 0) {
    row("compressed memory",
        fmt::format("{} rows of {} each", grouped(info.compressed_memory_length),
                    info.compression_rate));
  }
  row("receptive field", info.receptive_field == 0
                             ? "all that was read"
                             : grouped(info.receptive_field) +
                                   (info.reads_tokens ? " tokens" : " characters") +
                                   " before each");
  if (info.state_bytes > 0) {
    row("state", bytes_text(static_cast<double>(info.state_bytes)) + " for each text, in fp32");
  }
  return text;
}

namespace {

std::string shares_table(const std::vector<AttentionShares>& layers) {
  if (layers.empty()) return "";
  std::string text = fmt::format("\n{:<22} {:>12} {:>12} {:>12}\n", "attention goes to",
                                 "compressed", "memory", "segment");
  const auto sum = [](const std::array<double, 6>& ages) {
    return 100 * std::accumulate(ages.begin(), ages.end(), 0.0);
  };
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const AttentionShares& shares = layers[layer];
    text +=
        fmt::format("{:<22} {:>10.2f} % {:>10.2f} % {:>10.2f} %\n", fmt::format("layer {}", layer),
                    sum(shares.compressed), sum(shares.memory), sum(shares.segment));
  }
  return text;
}

}  // namespace

std::string language_model_score_text(const LanguageModelScore& score, bool json) {
  if (json) return to_json(score) + "\n";
  std::string text;
  const auto row = [&text](const char* name, double value) {
    text += fmt::format("{:<22} {:>12.4f}\n", name, value);
  };
  row(score.perplexity ? "bits per byte" : "bpc", score.bpc);
  row("loss", score.loss);
  if (score.perplexity) row("perplexity", *score.perplexity);
  if (score.word_perplexity) row("word perplexity", *score.word_perplexity);
  if (score.compression_loss) row("compression loss", *score.compression_loss);
  text += fmt::format("{:<22} {:>12}\n", score.perplexity ? "tokens" : "characters",
                      grouped(score.characters));
  return text + shares_table(score.attention_shares);
}

}  // namespace longformer::cli
