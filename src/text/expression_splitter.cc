#include "text/expression_splitter.h"

#include <utility>

namespace longformer::text {
namespace {

bool is_newline(char c) { return c == '\r' || c == '\n'; }

}  // namespace

std::optional<WordExpression> word_expression(std::string_view expression) {
  // GPT-4 and Llama 3 have one expression; that of Qwen2 takes digits one by one.
  static constexpr std::array<std::pair<std::string_view, WordExpression>, 4> kKnown = {{
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", {}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.is_gpt2 = false}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.is_gpt2 = false, .longest_number = 1}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.is_gpt2 = false, .longest_number = 1, .marks_are_letters = true}},
  }};
  for (const auto& [known, form] : kKnown) {
    if (known == expression) return form;
  }
  return std::nullopt;
}

std::size_t ExpressionSplitter::folded_contraction(std::size_t begin) const {
  // UTF-8 of ſ, U+017F.
  constexpr std::string_view kLongS = "\u017f";
  const std::string_view rest(text_ + begin + 1, end_ - begin - 1);
  if (rest.starts_with(kLongS)) return 1 + kLongS.size();
  if (rest.empty()) return 0;
  const char first = ascii_lower(rest[0]);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (rest.size() < 2) return 0;
  const char second = ascii_lower(rest[1]);
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? 3 : 0;
}

std::size_t ExpressionSplitter::later_end(std::size_t begin) const {
  using Class = CharacterClass;
  const char byte = text_[begin];
  if (byte == '\'') {
    if (const auto size = folded_contraction(begin)) return begin + size;
  }
  const auto [kind, size] = class_at(begin);
  auto position = begin + size;
  if (kind == Class::letter) return run_end(Class::letter, position);
  if (kind == Class::number) {
    for (std::size_t count = 1; count < expression_.longest_number && position < end_; ++count) {
      const auto next = class_at(position);
      if (next.kind != Class::number) break;
      position += next.size;
    }
    return position;
  }
  // One character that is no letter belongs to the word behind it, if it ends no line.
  const auto behind = position < end_ ? class_at(position) : Classified{Class::space, 0};
  if (behind.kind == Class::letter && !is_newline(byte)) {
    return run_end(Class::letter, position + behind.size);
  }
  if (kind == Class::other || (byte == ' ' && behind.kind == Class::other)) {
    position = run_end(Class::other, position);
    while (position < end_ && is_newline(text_[position])) ++position;
    return position;
  }
  const auto run = whitespace_run(begin);
  // Whitespace up to the last line end in it.
  for (auto end = run.end; end > begin; --end) {
    if (is_newline(text_[end - 1])) return end;
  }
  return run.end == end_ || run.last == begin ? run.end : run.last;
}

}  // namespace longformer::text
