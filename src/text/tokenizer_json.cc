// Reading of tokenizer.json.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "text/json_stream.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

using Json = nlohmann::json;

// A part of the file with its place for messages.
struct Section {
  const Json& value;
  std::string name;

  bool present() const { return !value.is_null(); }
  std::string type() const { return text("type", ""); }

  Section at(const std::string& key) const {
    static const Json missing;
    const bool found = value.is_object() && value.contains(key);
    return {found ? value.at(key) : missing, fmt::format("{}.{}", name, key)};
  }
  bool flag(const std::string& key, bool otherwise) const {
    const auto entry = at(key);
    if (!entry.present()) return otherwise;
    require(entry.value.is_boolean(), "{}: expected true or false, found {}", entry.name,
            entry.value.type_name());
    return entry.value.get<bool>();
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    const auto entry = at(key);
    if (!entry.present()) return otherwise;
    require(entry.value.is_string(), "{}: expected text, found {}", entry.name,
            entry.value.type_name());
    return entry.value.get<std::string>();
  }
  std::int64_t integer(const std::string& key, std::int64_t otherwise) const {
    const auto entry = at(key);
    if (!entry.present()) return otherwise;
    return entry.as_integer();
  }
  std::int64_t as_integer() const {
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    require(value.is_number_integer() && value <= limit - 1 && value >= 0,
            "{}: expected an integer from 0 to {}, found {}", name, limit - 1, value.dump());
    return value.get<std::int64_t>();
  }
  std::vector<Section> items() const {
    require(value.is_array(), "{}: expected an array, found {}", name, value.type_name());
    std::vector<Section> sections;
    for (std::size_t i = 0; i < value.size(); ++i) {
      sections.push_back({value[i], fmt::format("{}[{}]", name, i)});
    }
    return sections;
  }
};

[[noreturn]] void unsupported(const Section& section, const std::string& expected) {
  const auto found = section.value.is_object() ? section.type() : section.value.type_name();
  fail("{}: expected {}, found {}", section.name, expected, found);
}

// The members of a Sequence, or the section itself, or nothing.
std::vector<Section> flattened(const Section& section, const std::string& members) {
  if (!section.present()) return {};
  if (!section.value.is_object()) unsupported(section, "an object or null");
  if (section.type() != "Sequence") return {section};
  std::vector<Section> all;
  for (const auto& item : section.at(members).items()) {
    for (const auto& inner : flattened(item, members)) all.push_back(inner);
  }
  return all;
}

std::u32string characters_of(const std::string& text) {
  std::u32string characters;
  for (std::size_t i = 0; i < text.size();) {
    const auto character = decode_character(text, i);
    characters += character.value;
    i += character.size;
  }
  return characters;
}

// Understands texts and runs of one character: "X+" and "X{2,}".
void read_expression(const Section& section, NormalizationStep& step) {
  const auto expression = section.value.get<std::string>();
  const auto refuse = [&] {
    fail("{}: expected text or a run of one character such as ' {{2,}}', found '{}'", section.name,
         expression);
  };
  const auto characters = characters_of(expression);
  std::size_t i = 0;
  for (; i < characters.size(); ++i) {
    auto c = characters[i];
    if (c == U'+' || c == U'{') break;
    if (std::u32string_view(U".*?()[]|^$}").find(c) != std::u32string_view::npos) refuse();
    if (c == U'\\') {
      if (++i == characters.size()) refuse();
      c = characters[i];
      const bool letter = (character_flags(c) & CharacterFlags::word) != 0;
      if (c == U'n' || c == U'r' || c == U't') {
        c = c == U'n' ? U'\n' : c == U'r' ? U'\r' : U'\t';
      } else if (letter) {
        refuse();
      }
    }
    step.pattern += c;
  }
  if (i == characters.size()) return;
  if (step.pattern.size() != 1) refuse();
  step.run = 1;
  if (characters[i] == U'{') {
    step.run = 0;
    while (++i < characters.size() && characters[i] >= U'0' && characters[i] <= U'9') {
      step.run = std::min<std::size_t>(step.run * 10 + (characters[i] - U'0'), 1 << 20);
    }
    if (i + 2 != characters.size() || characters[i] != U',' || characters[++i] != U'}') refuse();
    if (step.run == 0) refuse();
  }
  if (i + 1 != characters.size()) refuse();
}

NormalizationStep read_replace(const Section& item) {
  NormalizationStep step(NormalizationKind::replace);
  const auto pattern = item.at("pattern");
  const auto text = pattern.at("String"), expression = pattern.at("Regex");
  if (text.present()) {
    step.pattern = characters_of(pattern.text("String", ""));
  } else {
    require(expression.value.is_string(), "{}: expected String or Regex, found none", pattern.name);
    // The expression of DeBERTa-v2.
    step.joins_spaces = expression.value.get<std::string>() == R"(\s{2,}|[\n\r\t])";
    if (step.joins_spaces) {
      step.pattern = U" ";
    } else {
      read_expression(expression, step);
    }
  }
  require(!step.pattern.empty(), "{}: expected a pattern that is not empty", pattern.name);
  const auto content = item.text("content", "");
  require(text.present() || content.find('$') == std::string::npos,
          "{}.content: expected text without groups, found '{}'", item.name, content);
  step.content = characters_of(content);
  return step;
}

std::optional<NormalizationKind> plain_normalization(const std::string& type) {
  using Kind = NormalizationKind;
  static const std::map<std::string, Kind> kinds{
      {"Lowercase", Kind::lowercase},
      {"NFD", Kind::decompose},
      {"NFC", Kind::compose},
      {"NFKD", Kind::decompose_compatible},
      {"NFKC", Kind::compose_compatible},
      {"Nmt", Kind::nmt},
      {"StripAccents", Kind::strip_marks},
  };
  const auto found = kinds.find(type);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

void read_bert_normalizer(const Section& item, const ClassSettings& settings, TokenizerSpec& spec) {
  const bool lowercase = item.flag("lowercase", true);
  const BertNormalization own{.lowercase = lowercase,
                              .strip_accents = item.flag("strip_accents", lowercase),
                              .space_chinese = item.flag("handle_chinese_chars", true)};
  add_bert_normalization(spec, settings.bert.value_or(own), item.flag("clean_text", true));
}

// Reads the class's own normalizer where the file has none. Another one than the class's stays.
void reconcile_normalizer(const Section& section, const std::vector<Section>& items,
                          const ClassSettings& settings, TokenizerSpec& spec) {
  if (!settings.bert) return;
  if (items.empty()) add_bert_normalization(spec, *settings.bert, true);
  const bool usual =
      items.size() == 1 && items[0].type() == "BertNormalizer" && items[0].flag("clean_text", true);
  if (items.empty() || usual) return;
  spec.notes.push_back(
      fmt::format("{} is used as it stands; transformers 5 replaces it by the one of {}, "
                  "transformers 4 does not",
                  section.name, settings.name));
}

void read_normalizer(const Section& section, const ClassSettings& settings, TokenizerSpec& spec) {
  using Step = NormalizationKind;
  auto& steps = spec.normalization;
  const auto items = flattened(section, "normalizers");
  for (const auto& item : items) {
    const auto type = item.type();
    if (const auto kind = plain_normalization(type)) {
      steps.emplace_back(*kind);
    } else if (type == "BertNormalizer") {
      read_bert_normalizer(item, settings, spec);
    } else if (type == "Precompiled") {
      const auto map = item.at("precompiled_charsmap");
      require(map.value.is_string(), "{}: expected base64, found {}", map.name,
              map.value.type_name());
      steps.emplace_back(Step::map);
      steps.back().map =
          std::make_shared<CharacterMap>(map.value.get_ref<const std::string&>(), map.name);
    } else if (type == "Strip") {
      steps.emplace_back(Step::strip_ends);
      steps.back().left = item.flag("strip_left", true);
      steps.back().right = item.flag("strip_right", true);
    } else if (type == "Replace") {
      steps.push_back(read_replace(item));
    } else if (type == "Prepend") {
      steps.emplace_back(Step::prepend);
      steps.back().content = characters_of(item.text("prepend", ""));
    } else {
      unsupported(item,
                  "BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, StripAccents, Strip, "
                  "Replace, Prepend or Precompiled");
    }
  }
  reconcile_normalizer(section, items, settings, spec);
}

// The one character of an entry.
char32_t read_character(const Section& section, const std::string& key,
                        const std::string& otherwise) {
  const auto characters = characters_of(section.text(key, otherwise));
  require(characters.size() == 1, "{}.{}: expected one character, found {}", section.name, key,
          characters.size());
  return characters[0];
}

// Older files say add_prefix_space.
PrefixScheme read_prefix_scheme(const Section& item) {
  const auto scheme = item.text("prepend_scheme", "always");
  const bool adds = item.flag("add_prefix_space", true);
  const bool known = scheme == "always" || scheme == "first" || scheme == "never";
  require(known, "{}.prepend_scheme: expected always, first or never, found '{}'", item.name,
          scheme);
  require(adds || scheme == "never" || !item.at("prepend_scheme").present(),
          "{}: expected prepend_scheme never beside add_prefix_space false, found '{}'", item.name,
          scheme);
  if (scheme == "never" || !adds) return PrefixScheme::never;
  return scheme == "first" ? PrefixScheme::first : PrefixScheme::always;
}

// The places where a Split or Punctuation cuts: what becomes of them.
SplitBehavior read_behavior(const Section& item, const std::string& otherwise) {
  constexpr std::array<std::string_view, 5> kBehaviors = {
      "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto name = item.text("behavior", otherwise);
  const auto behavior = std::ranges::find(kBehaviors, name);
  require(behavior != kBehaviors.end(), "{}.behavior: expected {}, found '{}'", item.name,
          fmt::join(kBehaviors, ", "), name);
  return static_cast<SplitBehavior>(behavior - kBehaviors.begin());
}

// A Split at a text.
void read_split(const Section& item, PieceCut& cut) {
  const auto pattern = item.at("pattern");
  cut.kind = PieceCut::Kind::pattern;
  cut.inverts = item.flag("invert", false);
  cut.behavior = read_behavior(item, "");
  require(!pattern.at("Regex").present(),
          "{}.Regex: expected a String where no ByteLevel follows, found '{}'", pattern.name,
          pattern.text("Regex", ""));
  cut.pattern = characters_of(pattern.text("String", ""));
  require(!cut.pattern.empty(), "{}: expected a String that is not empty, found {}", pattern.name,
          pattern.value.dump());
}

// A Split before ByteLevel. The expressions that are known leave nothing between their matches, so
// that what is done with these words is all that a behaviour can mean.
void read_words(const Section& item, TokenizerSpec& spec) {
  const auto pattern = item.at("pattern");
  const auto text = pattern.text("Regex", "");
  const auto expression = word_expression(text);
  require(expression.has_value(),
          "{}.Regex: expected the expression of GPT-2, GPT-4, Llama 3 or Qwen2, found {}",
          pattern.name, pattern.value.dump());
  const auto behavior = item.text("behavior", "");
  const bool inverts = item.flag("invert", false);
  require(behavior == "Isolated" || behavior == "MergedWithPrevious" ||
              behavior == "MergedWithNext" || (behavior == "Removed" && inverts),
          "{}.behavior: expected Isolated, MergedWithPrevious, MergedWithNext, or Removed with "
          "invert, found '{}'{}",
          item.name, behavior, inverts ? " with invert" : "");
  spec.expressions.push_back(*expression);
}

// A setting of the folder's class, if there is one, else that of the item.
PrefixScheme read_prefix_scheme(const Section& item, const ClassSettings& settings) {
  if (!settings.add_prefix_space) return read_prefix_scheme(item);
  return *settings.add_prefix_space ? PrefixScheme::always : PrefixScheme::never;
}

void read_cuts(const Section& section, const ClassSettings& settings, TokenizerSpec& spec) {
  for (const auto& item : flattened(section, "pretokenizers")) {
    PieceCut cut;
    const auto type = item.type();
    if (type == "WhitespaceSplit") {
      cut.kind = PieceCut::Kind::whitespace;
    } else if (type == "Whitespace") {
      cut.kind = PieceCut::Kind::words;
    } else if (type == "Split") {
      read_split(item, cut);
    } else if (type == "Punctuation") {
      cut.kind = PieceCut::Kind::punctuation;
      cut.behavior = read_behavior(item, "Isolated");
    } else if (type == "Metaspace") {
      cut.replacement = read_character(item, "replacement", "");
      cut.prefix = read_prefix_scheme(item, settings);
      cut.split = item.flag("split", true);
    } else {
      unsupported(item, "Metaspace, WhitespaceSplit, Whitespace, Punctuation or Split");
    }
    spec.cuts.push_back(cut);
  }
}

// ByteLevel comes last; what stands before it cuts the text.
void read_byte_level(const std::vector<Section>& items, const ClassSettings& settings,
                     TokenizerSpec& spec) {
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    if (items[i].type() != "Split") unsupported(items[i], "Split before a ByteLevel");
    read_words(items[i], spec);
  }
  const Section& last = items.back();
  if (last.type() != "ByteLevel") unsupported(last, "nothing behind a ByteLevel");
  const bool own = last.flag("add_prefix_space", true);
  spec.add_prefix_space = settings.add_prefix_space.value_or(own);
  spec.split_words = last.flag("use_regex", true);
}

void read_pre_tokenizer(const Section& section, const ClassSettings& settings,
                        TokenizerSpec& spec) {
  const auto items = flattened(section, "pretokenizers");
  if (spec.kind == TokenizerKind::byte_level_bpe) return read_byte_level(items, settings, spec);
  if (spec.kind != TokenizerKind::word_piece) return read_cuts(section, settings, spec);
  const std::string wanted = "BertPreTokenizer";
  if (items.size() != 1) {
    fail("{}: expected one {}, found {} pre-tokenizers", section.name, wanted, items.size());
  }
  if (items[0].type() != wanted) unsupported(items[0], wanted);
}

std::vector<TemplatePiece> read_template(const Section& pieces, const Section& special) {
  std::vector<TemplatePiece> result;
  for (const auto& item : pieces.items()) {
    const auto sequence = item.at("Sequence");
    const auto token = item.at("SpecialToken");
    TemplatePiece piece;
    if (sequence.present()) {
      const auto id = sequence.text("id", "");
      require(id == "A" || id == "B", "{}: expected A or B, found '{}'", sequence.name, id);
      piece.sequence = id == "A" ? 0 : 1;
      piece.type_id = static_cast<std::int32_t>(sequence.integer("type_id", 0));
    } else {
      require(token.present(), "{}: expected Sequence or SpecialToken", item.name);
      const auto entry = special.at(token.text("id", ""));
      require(entry.present(), "{}: expected a special token of the template, found '{}'",
              token.name, token.text("id", ""));
      for (const auto& id : entry.at("ids").items()) {
        piece.ids.push_back(static_cast<std::int32_t>(id.as_integer()));
      }
      piece.type_id = static_cast<std::int32_t>(token.integer("type_id", 0));
    }
    result.push_back(std::move(piece));
  }
  return result;
}

std::int32_t id_of_pair(const Section& section) {
  const auto items = section.items();
  require(items.size() == 2, "{}: expected a token and its id, found {} entries", section.name,
          items.size());
  return static_cast<std::int32_t>(items[1].as_integer());
}

TemplatePiece text_piece(int sequence, std::int32_t type_id) {
  return {.sequence = sequence, .ids = {}, .type_id = type_id};
}

TemplatePiece token_piece(std::int32_t id, std::int32_t type_id) {
  return {.sequence = -1, .ids = {id}, .type_id = type_id};
}

// Reads whether offsets are trimmed. The RoBERTa classes decide that themselves.
void read_trimming(const Section& item, const ClassSettings& settings, TokenizerSpec& spec) {
  const bool trims = item.flag("trim_offsets", true);
  const bool spaces = item.flag("add_prefix_space", true);
  if (!settings.trim_offsets.value_or(trims)) return;
  spec.trimming.push_back(
      {settings.trim_offsets ? settings.add_prefix_space.value_or(spaces) : spaces});
}

void read_post_processor(const Section& section, const ClassSettings& settings,
                         TokenizerSpec& spec) {
  spec.has_post_processor = section.present();
  bool has_template = false;
  const auto once = [&](const Section& item) {
    require(!has_template, "{}: expected one template, found a second", item.name);
    has_template = true;
  };
  for (const auto& item : flattened(section, "processors")) {
    const auto type = item.type();
    if (type == "TemplateProcessing") {
      once(item);
      spec.single = read_template(item.at("single"), item.at("special_tokens"));
      spec.pair = read_template(item.at("pair"), item.at("special_tokens"));
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      once(item);
      const bool roberta = type == "RobertaProcessing";
      const auto cls = id_of_pair(item.at("cls"));
      const auto sep = id_of_pair(item.at("sep"));
      const std::int32_t second = roberta ? 0 : 1;
      spec.single = {token_piece(cls, 0), text_piece(0, 0), token_piece(sep, 0)};
      spec.pair = spec.single;
      if (roberta) spec.pair.push_back(token_piece(sep, 0));
      spec.pair.insert(spec.pair.end(), {text_piece(1, second), token_piece(sep, second)});
      if (roberta) read_trimming(item, settings, spec);
    } else if (type == "ByteLevel") {
      read_trimming(item, settings, spec);
    } else {
      unsupported(item, "TemplateProcessing, RobertaProcessing, BertProcessing or ByteLevel");
    }
  }
}

std::string read_decoder_pattern(const Section& item) {
  const auto pattern = item.at("pattern");
  const auto text = pattern.text("String", "");
  require(!text.empty(), "{}: expected a String that is not empty, found {}", pattern.name,
          pattern.value.dump());
  return text;
}

void read_decoder(const Section& section, const ClassSettings& settings, TokenizerSpec& spec) {
  for (const auto& item : flattened(section, "decoders")) {
    DecodingStep step;
    const auto type = item.type();
    if (type == "ByteLevel") {
      step.kind = DecodingKind::byte_level;
    } else if (type == "WordPiece") {
      step.kind = DecodingKind::word_piece;
      step.prefix = item.text("prefix", "##");
      step.cleanup = item.flag("cleanup", true);
    } else if (type == "Metaspace") {
      step.pattern.clear();
      append_utf8(read_character(item, "replacement", ""), step.pattern);
      step.drops_first = read_prefix_scheme(item, settings) != PrefixScheme::never;
    } else if (type == "Replace") {
      step.kind = DecodingKind::replace;
      step.pattern = read_decoder_pattern(item);
      step.content = item.text("content", "");
    } else if (type == "ByteFallback") {
      step.kind = DecodingKind::byte_fallback;
    } else if (type == "Fuse") {
      step.kind = DecodingKind::fuse;
    } else if (type == "Strip") {
      step.kind = DecodingKind::strip;
      step.pattern.clear();
      append_utf8(read_character(item, "content", " "), step.pattern);
      step.start = static_cast<std::size_t>(item.integer("start", 0));
      step.stop = static_cast<std::size_t>(item.integer("stop", 0));
    } else {
      unsupported(item, "ByteLevel, WordPiece, Metaspace, Replace, ByteFallback, Fuse or Strip");
    }
    spec.decoding.push_back(std::move(step));
  }
}

void read_unigram_model(const Section& model, TokenizerSpec& spec) {
  spec.unigram.byte_fallback = model.flag("byte_fallback", false);
  const auto unknown = model.at("unk_id");
  if (!unknown.present()) return;
  const auto id = unknown.as_integer();
  const auto count = static_cast<std::int64_t>(spec.unigram.scores.size());
  require(id < count, "{}: expected an id below {}, found {}", unknown.name, count, id);
  spec.unigram.unknown = static_cast<std::int32_t>(id);
}

void read_byte_pair_model(const Section& model, TokenizerSpec& spec) {
  for (const auto* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto value = model.text(option, "");
    require(value.empty(), "{}.{}: expected none, found '{}'", model.name, option, value);
  }
  const bool bytes = spec.kind == TokenizerKind::byte_level_bpe;
  spec.byte_pair.merges_characters = !bytes;
  spec.byte_pair.byte_fallback = model.flag("byte_fallback", false);
  require(!bytes || !spec.byte_pair.byte_fallback,
          "{}.byte_fallback: expected false beside a ByteLevel, found true", model.name);
  const auto dropout = model.at("dropout");
  require(!dropout.present() || dropout.value == 0, "{}: expected no dropout, found {}",
          dropout.name, dropout.value.dump());
  spec.byte_pair.fuse_unknown = model.flag("fuse_unk", false);
  spec.byte_pair.ignore_merges = model.flag("ignore_merges", false);
  const auto unknown = model.text("unk_token", "");
  if (unknown.empty()) return;
  spec.byte_pair.unknown = spec.vocabulary.find(unknown);
  require(bytes || spec.byte_pair.unknown,
          "{}.unk_token: expected a token of the vocabulary, found '{}'", model.name, unknown);
}

// The id of the token for what the model does not know.
std::int32_t read_unknown(const Section& model, const std::string& otherwise,
                          const TokenizerSpec& spec) {
  const auto unknown = model.text("unk_token", otherwise);
  const auto id = spec.vocabulary.find(unknown);
  require(id.has_value(), "{}.unk_token: expected a token of the vocabulary, found '{}'",
          model.name, unknown);
  return *id;
}

void read_word_piece_model(const Section& model, TokenizerSpec& spec) {
  auto& options = spec.word_piece;
  options.continuing_prefix = model.text("continuing_subword_prefix", "##");
  options.longest_word = model.integer("max_input_chars_per_word", 100);
  options.unknown = read_unknown(model, "[UNK]", spec);
}

void read_added_tokens(const Section& section, const std::string& path, TokenizerSpec& spec) {
  if (!section.present()) return;
  for (const auto& item : section.items()) {
    AddedToken token;
    token.content = item.text("content", "");
    token.single_word = item.flag("single_word", false);
    token.left_strip = item.flag("lstrip", false);
    token.right_strip = item.flag("rstrip", false);
    token.special = item.flag("special", false);
    token.normalized = item.flag("normalized", !token.special);
    add_token(spec, std::move(token), path);
  }
}

// The settings that go with a kind of tokenizer: a BERT class has none for byte pairs.
ClassSettings settings_of_kind(ClassSettings settings, TokenizerKind kind) {
  const bool metaspace =
      settings.kind == TokenizerClass::xlm_roberta || settings.kind == TokenizerClass::albert;
  if (kind != TokenizerKind::word_piece) settings.bert.reset();
  if (kind != TokenizerKind::byte_level_bpe) settings.trim_offsets.reset();
  if ((kind == TokenizerKind::unigram) != metaspace) settings.add_prefix_space.reset();
  return settings;
}

// Reads tables and options of the model, and says what kind it is.
void read_model(const Section& model, const std::string& path, bool has_byte_level,
                JsonTables& tables, TokenizerSpec& spec) {
  // Files written before 2021 do not name the type.
  const auto type = model.text("type", tables.has_scores   ? "Unigram"
                                       : tables.has_merges ? "BPE"
                                                           : "WordPiece");
  const bool unigram = type == "Unigram";
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel" && !unigram) {
    unsupported(model, "BPE, WordPiece, WordLevel or Unigram");
  }
  require(unigram ? tables.has_scores : tables.has_vocabulary, "{}.vocab: expected {}", model.name,
          unigram ? "an array of tokens and scores" : "an object of tokens and ids");
  spec.vocabulary = std::move(tables.vocabulary);
  spec.vocabulary.finish(path, unigram);
  if (unigram) {
    spec.kind = TokenizerKind::unigram;
    spec.unigram.scores = std::move(tables.scores);
    read_unigram_model(model, spec);
  } else if (type == "BPE") {
    spec.kind = has_byte_level ? TokenizerKind::byte_level_bpe : TokenizerKind::byte_pair;
    require(tables.has_merges, "{}.merges: expected an array", model.name);
    set_merges(spec, tables.merges, path);
    read_byte_pair_model(model, spec);
  } else if (type == "WordPiece") {
    spec.kind = TokenizerKind::word_piece;
    read_word_piece_model(model, spec);
  } else {
    spec.kind = TokenizerKind::word_level;
    spec.word_level.unknown = read_unknown(model, "<unk>", spec);
  }
}

}  // namespace

void add_bert_normalization(TokenizerSpec& spec, const BertNormalization& options, bool clean) {
  using Step = NormalizationKind;
  auto& steps = spec.normalization;
  if (clean) steps.emplace_back(Step::clean);
  if (options.space_chinese) steps.emplace_back(Step::space_chinese);
  if (options.strip_accents) {
    steps.emplace_back(Step::decompose);
    steps.emplace_back(Step::strip_nonspacing);
  }
  if (options.lowercase) steps.emplace_back(Step::lowercase);
}

TokenizerSpec read_tokenizer_json(const std::string& path, const ClassSettings& class_settings) {
  auto tables = read_json_tables(path, TableLayout::inside_model);
  const Section root{tables.rest, path};
  const auto model = root.at("model");
  require(model.value.is_object(), "{}: expected an object, found {}", model.name,
          model.value.type_name());
  bool has_byte_level = false;
  for (const auto& item : flattened(root.at("pre_tokenizer"), "pretokenizers")) {
    has_byte_level = has_byte_level || item.type() == "ByteLevel";
  }
  TokenizerSpec spec;
  read_model(model, path, has_byte_level, tables, spec);
  const ClassSettings settings = settings_of_kind(class_settings, spec.kind);
  read_normalizer(root.at("normalizer"), settings, spec);
  read_pre_tokenizer(root.at("pre_tokenizer"), settings, spec);
  read_post_processor(root.at("post_processor"), settings, spec);
  read_decoder(root.at("decoder"), settings, spec);
  const auto side = root.at("truncation").text("direction", "Right");
  spec.truncates_left = settings.truncates_left.value_or(side == "Left");
  read_added_tokens(root.at("added_tokens"), path, spec);
  return spec;
}

}  // namespace longformer::text
