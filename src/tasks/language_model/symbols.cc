#include "tasks/language_model/symbols.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace longformer::tasks {
namespace {

/// U+FFFD, which stands for bytes of a character whose others have not come.
constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";

}  // namespace

Symbols::Symbols(const models::LanguageModelConfig& config, const std::string& folder)
    : alphabet_(config.alphabet), bytes_(config.symbols) {
  if (!config.reads_tokens) return;
  tokenizer_ = Tokenizer::load(folder).with_rows(config.vocab_size);
}

std::string Symbols::description() const {
  if (tokenizer_) {
    return fmt::format("{} tokens ({})", tokenizer_->vocabulary_size(), tokenizer_->kind());
  }
  if (!bytes_.empty()) return fmt::format("{} bytes", bytes_.size());
  return std::string(text::name_of(alphabet_));
}

void Symbols::check(std::string_view text, const std::string& name) const {
  if (tokenizer_) return;
  if (bytes_.empty()) return text::check_characters(alphabet_, text, name);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    require(std::find(bytes_.begin(), bytes_.end(), byte) != bytes_.end(), FileName{name},
            "expected bytes of the {} symbols of the model, found {} at byte {}", bytes_.size(),
            byte, i);
  }
}

std::vector<std::int32_t> Symbols::encode_bytes(std::string_view text) const {
  if (bytes_.empty()) return text::encode_characters(alphabet_, text);
  std::vector<std::int32_t> numbers(256, -1);
  for (std::size_t i = 0; i < bytes_.size(); ++i) numbers[bytes_[i]] = static_cast<std::int32_t>(i);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char byte : text) ids.push_back(numbers[static_cast<std::uint8_t>(byte)]);
  return ids;
}

Symbols::Tokens Symbols::encode_tokens(std::string_view text) const {
  EncodeOptions options;
  options.add_special_tokens = false;
  Encoding encoding = tokenizer_->encode(text, options);
  const std::vector<std::size_t> starts = character_starts(text);
  Tokens tokens = {.ids = std::move(encoding.ids), .ends = {}};
  tokens.ends.reserve(tokens.ids.size());
  for (const CharacterSpan& span : encoding.offsets) {
    tokens.ends.push_back(static_cast<std::int64_t>(starts[static_cast<std::size_t>(span.end)]));
  }
  return tokens;
}

std::vector<std::int32_t> Symbols::encode(std::string_view text, const std::string& name) const {
  check(text, name);
  return tokenizer_ ? encode_tokens(text).ids : encode_bytes(text);
}

std::string Symbols::decode(std::span<const std::int32_t> ids) const {
  if (tokenizer_) return tokenizer_->decode(ids, false);
  std::string text;
  for (const std::int32_t id : ids) {
    text += bytes_.empty() ? text::decode_character(alphabet_, id)
                           : static_cast<char>(bytes_[static_cast<std::size_t>(id)]);
  }
  return text;
}

std::vector<std::int32_t> Symbols::usual_prompt() const {
  if (!tokenizer_) {
    const bool has_break = bytes_.empty()
                               ? alphabet_ == text::Alphabet::bytes
                               : std::find(bytes_.begin(), bytes_.end(), '\n') != bytes_.end();
    if (!has_break && !bytes_.empty()) return {0};
    return encode_bytes(has_break ? "\n" : " ");
  }
  const auto lines = encode_tokens("\n").ids;
  if (!lines.empty()) return lines;
  const SpecialTokens& special = tokenizer_->special_tokens();
  for (const auto& id : {special.bos, special.cls, special.eos, special.sep}) {
    if (id) return {*id};
  }
  fail(OptionName("prompt"),
       "expected text, as the tokenizer has no token for the beginning of one");
}

std::string SymbolDecoder::told(bool all) {
  const std::string before = symbols_.decode(std::span(ids_).first(read_));
  const std::string whole = symbols_.decode(ids_);
  if (!all && symbols_.are_tokens() && whole.ends_with(kUnfinished)) return "";
  std::string text = whole.substr(std::min(before.size(), whole.size()));
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(read_));
  read_ = ids_.size();
  return text;
}

std::string SymbolDecoder::next(std::int32_t id) {
  ids_.push_back(id);
  return told(false);
}

std::string SymbolDecoder::rest() { return read_ == ids_.size() ? "" : told(true); }

}  // namespace longformer::tasks
