#include "text/byte_tokens.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "text/byte_pair_encoding.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

constexpr std::array<std::pair<const char*, std::int32_t>, 4> kByteSpecials = {
    {{"[PAD]", kBytePad}, {"[CLS]", kByteCls}, {"[SEP]", kByteSep}, {"[MASK]", kByteMask}}};

}  // namespace

bool reads_bytes(const std::filesystem::path& folder) {
  std::ifstream stream(folder / "config.json");
  if (!stream) return false;
  const auto config = nlohmann::json::parse(stream, nullptr, false);
  if (!config.is_object() || config.value("vocabulary", nlohmann::json()) != "bytes") return false;
  const auto type = config.value("model_type", nlohmann::json());
  return type != "longformer-lm" && type != "longformer-character-lm";
}

TokenizerSpec byte_tokenizer() {
  const std::string name = "bytes";
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bytes;
  spec.split_words = false;
  for (const auto& [token, id] : kByteSpecials) spec.vocabulary.add(token, id, name);
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(character_of_byte(static_cast<unsigned char>(byte)), token);
    spec.vocabulary.add(token, kFirstByte + byte, name);
  }
  spec.vocabulary.finish(name);
  for (const auto& [token, id] : kByteSpecials) {
    add_token(spec, {.content = token, .normalized = false, .special = true}, name);
  }
  spec.special.pad = kBytePad;
  spec.special.cls = kByteCls;
  spec.special.sep = kByteSep;
  spec.special.mask = kByteMask;
  const auto token = [](std::int32_t id, std::int32_t type) {
    return TemplatePiece{.sequence = -1, .ids = {id}, .type_id = type};
  };
  spec.single = {token(kByteCls, 0), {.sequence = 0, .ids = {}, .type_id = 0}, token(kByteSep, 0)};
  spec.pair = spec.single;
  spec.pair.push_back({.sequence = 1, .ids = {}, .type_id = 1});
  spec.pair.push_back(token(kByteSep, 1));
  spec.decoding.push_back({.kind = DecodingKind::byte_level});
  return spec;
}

}  // namespace longformer::text
