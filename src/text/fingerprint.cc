#include "text/fingerprint.h"

#include <string_view>

#include "core/hash.h"

namespace longformer::text {
namespace {

/// Case, accents, ligatures, digits, spaces, Chinese, Hangul, emoji, control characters and words
/// in other scripts: normalizers and splitters differ in one of them.
constexpr std::string_view kProbe =
    "The Quick naïve Ångström's café—can't, won't!  3.14159 1234567\t\u00a0\n\n"
    "ﬁancée ½ Ⅷ İstanbul straße ΣΊΣΥΦΟΣ привет "
    "你好世界 한국어 かな कि "
    "🙂👩‍👩‍👧 "
    "e\u0301 \u200b\u0007 "
    "http://example.org/a_b?c=d#e <mask> [MASK] <s> __init__ snake_case CamelCase";

}  // namespace

std::uint64_t fingerprint(const Tokenizer& tokenizer) {
  std::uint64_t hash = fnv1a(tokenizer.kind());
  // The mark tells where a token ends.
  for (std::int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    hash = fnv1a("\1", fnv1a(tokenizer.token(id), hash));
  }
  // A model may have fewer rows than its tokenizer has tokens.
  const Encoding encoded = tokenizer.with_rows(tokenizer.vocabulary_size()).encode(kProbe);
  for (const std::int32_t id : encoded.ids) hash = hash * 31 + static_cast<std::uint32_t>(id);
  return hash;
}

}  // namespace longformer::text
