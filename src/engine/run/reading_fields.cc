#include "engine/run/reading_fields.h"

#include <string>

#include "core/error.h"
#include "core/option_fields.h"

namespace longformer {

OptionField::Flag flag_of(TooLong& too_long, TooLong chosen) {
  return {.raise = [&too_long, chosen] { too_long = chosen; },
          .shown = [&too_long, chosen] { return too_long == chosen; }};
}

OptionField truncate_field(TooLong& too_long) {
  return {.name = "truncate",
          .value = flag_of(too_long, TooLong::truncate),
          .help = "of a document that is too long for the model, keep the first tokens"};
}

OptionField stride_field(TooLong& too_long, std::int64_t& stride) {
  const auto read = [&too_long, &stride](std::int64_t tokens) {
    too_long = TooLong::split;
    stride = tokens;
  };
  const auto shown = [&too_long, &stride] {
    return too_long == TooLong::split ? std::optional(stride) : std::nullopt;
  };
  return {.name = "stride",
          .value = OptionField::Whole{read, shown},
          .help =
              "read a document that is too long for the model in segments that overlap by N "
              "tokens",
          .type = "N",
          .excludes = {"truncate"}};
}

OptionField global_attention_field(std::optional<GlobalAttention>& rule) {
  const auto read = [&rule](const std::string& text) {
    try {
      rule = GlobalAttention::parse(text);
    } catch (const Error& error) {
      fail("{}", error.reason());
    }
  };
  return {.name = "global_attention",
          .value = OptionField::Text{read, [&rule] { return rule ? rule->rule() : std::string(); }},
          .help =
              "tokens with global attention, terms separated by commas: none, default, all, cls, "
              "question, sentences (the first token of each), every:64, 17, 0-15",
          .type = "RULE"};
}

OptionField batch_tokens_field(std::int64_t& tokens) {
  return {.name = "batch_tokens",
          .value = &tokens,
          .help = "tokens of one forward pass ({})",
          .type = "N",
          .least = 1};
}

OptionField max_length_field(std::int64_t& tokens) {
  return {.name = "max_length",
          .value = &tokens,
          .help =
              "longest document in tokens with the special ones; --truncate and --stride take "
              "this length for the model's (the model's)",
          .type = "N",
          .least = 1};
}

OptionField merge_field(SegmentMerge& merge) {
  return with_names(
      {.name = "merge", .help = "logits of a document: mean or max over its segments ({})"}, merge,
      {{"mean", SegmentMerge::mean}, {"max", SegmentMerge::max}});
}

}  // namespace longformer
