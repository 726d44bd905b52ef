// Everything that the files of a tokenizer say, whatever form they have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "longformer/text.h"
#include "text/added_tokens.h"
#include "text/byte_pair_encoding.h"
#include "text/decoding.h"
#include "text/expression_splitter.h"
#include "text/normalization.h"
#include "text/piece_cuts.h"
#include "text/tokenizer_class.h"
#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/word_level.h"
#include "text/word_piece.h"

namespace longformer::text {

/// `byte_pair` merges characters, `byte_level_bpe` the bytes of words, `bytes` merges none.
enum class TokenizerKind { byte_level_bpe, word_piece, unigram, byte_pair, word_level, bytes };

/// A place of a template: one of the texts, or special tokens.
struct TemplatePiece {
  int sequence = -1;              ///< 0 for the text, 1 for its pair, −1 for special tokens.
  std::vector<std::int32_t> ids;  ///< Special tokens.
  std::int32_t type_id = 0;

  bool operator==(const TemplatePiece&) const = default;
};

/// Takes the whitespace at both ends of tokens out of their offsets.
struct OffsetTrimming {
  bool add_prefix_space = true;  ///< The first token keeps one leading space, which was added.
};

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::byte_level_bpe;
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  BytePairOptions byte_pair;
  WordPieceOptions word_piece;
  UnigramOptions unigram;
  WordLevelOptions word_level;
  std::vector<PieceCut> cuts;  ///< Unigram, BPE of characters and WordLevel
  std::vector<NormalizationStep> normalization;
  std::vector<WordExpression> expressions;  ///< Byte level: cut the text into words first.
  bool add_prefix_space = false;
  bool split_words = true;  ///< Byte level: cut the text, or those words, as GPT-2 does.
  std::vector<OffsetTrimming> trimming;
  std::vector<TemplatePiece> single{{.sequence = 0, .ids = {}, .type_id = 0}};
  std::vector<TemplatePiece> pair{{.sequence = 0, .ids = {}, .type_id = 0},
                                  {.sequence = 1, .ids = {}, .type_id = 1}};
  bool has_post_processor = true;  ///< tokenizer.json names one.
  std::vector<DecodingStep> decoding;
  /// In the order in which they were added; ids are set.
  std::vector<AddedToken> added;
  SpecialTokens special;
  /// A cut text keeps its end.
  bool truncates_left = false;
  /// How the tokens may differ from those of transformers, one sentence each.
  std::vector<std::string> notes;
};

/// Whether a folder has a file that read_tokenizer begins with, or reads bytes.
bool has_tokenizer(const std::filesystem::path& folder);

/// Reads the tokenizer files of a folder. Throws Error as Tokenizer::load says.
TokenizerSpec read_tokenizer(const std::string& folder);

/// Reads a tokenizer.json; fills in all but the roles of special tokens. The settings stand above
/// the file where its parts have them.
TokenizerSpec read_tokenizer_json(const std::string& path, const ClassSettings& settings);

/// Appends the steps of a BertNormalizer.
void add_bert_normalization(TokenizerSpec& spec, const BertNormalization& options, bool clean);

/// Throws Error for a byte-level vocabulary whose longer tokens no merge makes.
void require_merges(const TokenizerSpec& spec, const std::string& file);

/// Adds a token with the id that it has in the vocabulary, or else the next free one. A token that
/// is there already takes the new options. Throws Error for an empty token.
void add_token(TokenizerSpec& spec, AddedToken token, const std::string& file);

/// The id of a token, added tokens first.
std::optional<std::int32_t> find_token(const TokenizerSpec& spec, std::string_view token);

/// Turns pairs of tokens into merges. Throws Error for tokens that are not in the vocabulary.
void set_merges(TokenizerSpec& spec, const std::vector<std::string>& pairs,
                const std::string& file);

}  // namespace longformer::text
