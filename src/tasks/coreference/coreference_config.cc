#include "tasks/coreference/coreference_config.h"

#include <string>
#include <string_view>

#include "core/error.h"
#include "formats/unused_keys.h"

namespace longformer::tasks {
namespace {

double within(const formats::ConfigReader& config, const std::string& key, double otherwise,
              double most) {
  const double value = config.number(key, otherwise);
  require(value >= 0 && value <= most, "{}: {}: expected a number from 0 to {}, found {}",
          config.name(), key, most, value);
  return value;
}

formats::ConfigReader reader_of(const models::HeadSettings& settings) {
  return {settings.object, fmt::format("{}: {}", settings.file, kCoreferenceKey)};
}

}  // namespace

CoreferenceConfig read_coreference_head(const formats::ConfigReader& config) {
  constexpr Index kMostWords = 1000, kMostWidth = 1 << 16;
  constexpr double kMostScale = 1e3;
  const CoreferenceConfig usual;
  return {.max_span_width = config.integer("max_span_length", usual.max_span_width, 1, kMostWords),
          .top_lambda = within(config, "top_lambda", usual.top_lambda, 100),
          .head_size = config.integer("ffnn_size", 3072, 1, kMostWidth),
          .dropout = within(config, "dropout_prob", usual.dropout, 0.99),
          .mention_scale = within(config, "mention_scale", 1, kMostScale),
          .antecedent_scale = within(config, "antecedent_scale", 1, kMostScale),
          .mention_loss = within(config, "mention_loss_weight", 0, kMostScale),
          .max_segment_tokens = config.integer("max_segment_len", 0, 0, Index{1} << 30),
          .segments = static_cast<CoreferenceSegments>(
              config.choice("segments", kCoreferenceSegments, kCoreferenceSegments.back())),
          .singletons = config.boolean("singletons", false),
          .same_sentence = config.boolean("same_sentence", false)};
}

CoreferenceConfig coreference_config(const models::EncoderConfig& config) {
  const auto found = config.head_settings.find(kCoreferenceKey);
  require(found != config.head_settings.end(),
          "coreference: expected the object {} in config.json, found none", kCoreferenceKey);
  return read_coreference_head(reader_of(found->second));
}

std::string unused_coreference_keys(const models::EncoderConfig& config) {
  const auto found = config.head_settings.find(kCoreferenceKey);
  if (found == config.head_settings.end()) return {};
  const formats::ConfigReader head = reader_of(found->second);
  read_coreference_head(head);
  return formats::unused_keys_note(head, {});
}

nlohmann::ordered_json json_of(const CoreferenceConfig& coreference) {
  return {{"max_span_length", coreference.max_span_width},
          {"top_lambda", coreference.top_lambda},
          {"ffnn_size", coreference.head_size},
          {"dropout_prob", coreference.dropout},
          {"mention_scale", coreference.mention_scale},
          {"antecedent_scale", coreference.antecedent_scale},
          {"mention_loss_weight", coreference.mention_loss},
          {"max_segment_len", coreference.max_segment_tokens},
          {"segments", kCoreferenceSegments[static_cast<std::size_t>(coreference.segments)]},
          {"singletons", coreference.singletons},
          {"same_sentence", coreference.same_sentence}};
}

}  // namespace longformer::tasks
