// Reading of tokenizer folders: older files, and the roles of special tokens.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "text/byte_tokens.h"
#include "text/encoder_folder.h"
#include "text/json_stream.h"
#include "text/sentence_piece.h"
#include "text/tokenizer_class.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

enum class Family { bert, funnel, mpnet, roberta, gpt2, albert, deberta, t5, llama, gemma };

constexpr const char* kDebertaFile = "spm.model";

constexpr std::array<const char*, 7> roles{"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

// Names of special tokens in the token classes of the families.
std::string usual_name(Family family, const std::string& role) {
  static const std::map<std::string, std::string> bert{
      {"unk", "[UNK]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}};
  static const std::map<std::string, std::string> funnel{
      {"bos", "<s>"},   {"eos", "</s>"},  {"unk", "<unk>"},  {"sep", "<sep>"},
      {"pad", "<pad>"}, {"cls", "<cls>"}, {"mask", "<mask>"}};
  static const std::map<std::string, std::string> mpnet{
      {"bos", "<s>"},   {"eos", "</s>"}, {"unk", "[UNK]"},  {"sep", "</s>"},
      {"pad", "<pad>"}, {"cls", "<s>"},  {"mask", "<mask>"}};
  static const std::map<std::string, std::string> roberta{
      {"bos", "<s>"},   {"eos", "</s>"}, {"unk", "<unk>"},  {"sep", "</s>"},
      {"pad", "<pad>"}, {"cls", "<s>"},  {"mask", "<mask>"}};
  static const std::map<std::string, std::string> gpt2{
      {"bos", "<|endoftext|>"}, {"eos", "<|endoftext|>"}, {"unk", "<|endoftext|>"}};
  static const std::map<std::string, std::string> albert{
      {"bos", "[CLS]"}, {"eos", "[SEP]"}, {"unk", "<unk>"},  {"sep", "[SEP]"},
      {"pad", "<pad>"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}};
  static const std::map<std::string, std::string> deberta{
      {"bos", "[CLS]"}, {"eos", "[SEP]"}, {"unk", "[UNK]"},  {"sep", "[SEP]"},
      {"pad", "[PAD]"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}};
  static const std::map<std::string, std::string> t5{
      {"eos", "</s>"}, {"unk", "<unk>"}, {"pad", "<pad>"}};
  static const std::map<std::string, std::string> llama{
      {"bos", "<s>"}, {"eos", "</s>"}, {"unk", "<unk>"}};
  static const std::map<std::string, std::string> gemma{
      {"bos", "<bos>"}, {"eos", "<eos>"}, {"unk", "<unk>"}, {"pad", "<pad>"}, {"mask", "<mask>"}};
  static const std::map<Family, const std::map<std::string, std::string>*> families{
      {Family::bert, &bert},       {Family::funnel, &funnel}, {Family::mpnet, &mpnet},
      {Family::roberta, &roberta}, {Family::gpt2, &gpt2},     {Family::albert, &albert},
      {Family::deberta, &deberta}, {Family::t5, &t5},         {Family::llama, &llama},
      {Family::gemma, &gemma}};
  const auto& names = *families.at(family);
  const auto found = names.find(role);
  return found == names.end() ? "" : found->second;
}

// The family of the folder's class, if it goes with the kind of the tokenizer.
std::optional<Family> family_of_class(const TokenizerSpec& spec, const FolderOptions& options) {
  using Class = TokenizerClass;
  static const std::map<Class, std::pair<TokenizerKind, Family>> families{
      {Class::bert, {TokenizerKind::word_piece, Family::bert}},
      {Class::funnel, {TokenizerKind::word_piece, Family::funnel}},
      {Class::mpnet, {TokenizerKind::word_piece, Family::mpnet}},
      {Class::roberta, {TokenizerKind::byte_level_bpe, Family::roberta}},
      {Class::gpt2, {TokenizerKind::byte_level_bpe, Family::gpt2}},
      {Class::xlm_roberta, {TokenizerKind::unigram, Family::roberta}},
      {Class::albert, {TokenizerKind::unigram, Family::albert}},
      {Class::deberta, {TokenizerKind::unigram, Family::deberta}},
      {Class::t5, {TokenizerKind::unigram, Family::t5}}};
  const auto found = families.find(options.settings.kind);
  if (found == families.end() || found->second.first != spec.kind) return std::nullopt;
  return found->second.second;
}

Family family_of(const TokenizerSpec& spec, const FolderOptions& options) {
  if (const auto family = family_of_class(spec, options)) return *family;
  if (spec.kind == TokenizerKind::word_piece || spec.kind == TokenizerKind::word_level) {
    return Family::bert;
  }
  if (spec.kind == TokenizerKind::byte_pair) {
    return find_token(spec, "<bos>") ? Family::gemma : Family::llama;
  }
  if (spec.kind == TokenizerKind::unigram) {
    if (find_token(spec, "[CLS]")) return Family::albert;
    return find_token(spec, "<s>") ? Family::roberta : Family::t5;
  }
  return find_token(spec, "<s>") && find_token(spec, "</s>") ? Family::roberta : Family::gpt2;
}

bool is_added(const TokenizerSpec& spec, const std::string& content) {
  return std::any_of(spec.added.begin(), spec.added.end(),
                     [&](const AddedToken& token) { return token.content == content; });
}

// Tokens that the files list, in the order of their ids.
void add_listed_tokens(TokenizerSpec& spec, const FolderOptions& options) {
  std::map<std::int64_t, AddedToken> by_id;
  if (options.config.contains("added_tokens_decoder")) {
    const auto& listed = options.config["added_tokens_decoder"];
    require(listed.is_object(), "{}: expected an object for added_tokens_decoder, found {}",
            options.config_file, listed.type_name());
    for (const auto& [id, value] : listed.items()) {
      const auto token = token_of(value, false);
      const bool digits =
          !id.empty() && id.size() < 9 && id.find_first_not_of("0123456789") == std::string::npos;
      require(token && digits, "{}: expected ids and tokens in added_tokens_decoder, found '{}'",
              options.config_file, id);
      by_id[std::stol(id)] = *token;
    }
  } else {
    for (const auto& [content, id] : options.added.items()) {
      require(id.is_number_integer() && id >= 0 && id < Vocabulary::id_limit,
              "{}: expected an id below {} for token '{}', found {}", options.added_file,
              Vocabulary::id_limit, content, id.dump());
      if (is_added(spec, content)) continue;
      AddedToken token;
      token.content = content;
      for (const auto* role : roles) {
        const auto named = named_token(options, role);
        if (named && named->content == content) token = *named;
      }
      by_id[id.get<std::int64_t>()] = token;
    }
  }
  for (auto& [id, token] : by_id) add_token(spec, std::move(token), options.config_file);
}

void add_further_tokens(TokenizerSpec& spec, const FolderOptions& options) {
  for (auto& token : further_special_tokens(options)) {
    if (!is_added(spec, token.content)) add_token(spec, std::move(token), options.config_file);
  }
}

// Adds the special tokens that the files name and those that the class has by default, in the
// order of transformers. A family that the folder does not name has only what the vocabulary has.
void add_named_tokens(TokenizerSpec& spec, const FolderOptions& options,
                      std::optional<Family> family, bool is_older) {
  const bool is_named = family_of_class(spec, options).has_value();
  for (const std::string role : roles) {
    auto token = named_token(options, role);
    const auto usual = family ? usual_name(*family, role) : std::string();
    const bool has_usual = is_named || find_token(spec, usual);
    if (!token && !usual.empty() && has_usual) token = token_of(usual, true);
    if (!token || token->content.empty() || is_added(spec, token->content)) continue;
    const bool has_options =
        options.special.contains("mask_token")
            ? options.special["mask_token"].is_object()
            : options.config.contains("mask_token") && options.config["mask_token"].is_object();
    // A mask without options takes the space before it, as it was trained: that of MPNet, and in
    // the older files that of RoBERTa, as transformers 4 has it.
    const bool takes_space = family == Family::mpnet || (family == Family::roberta && is_older);
    if (role == "mask" && takes_space && !has_options) token->left_strip = true;
    add_token(spec, std::move(*token), options.config_file);
  }
  add_further_tokens(spec, options);
}

void set_roles(TokenizerSpec& spec, const FolderOptions& options, Family family) {
  const std::map<std::string, std::optional<std::int32_t>*> targets{
      {"bos", &spec.special.bos},  {"eos", &spec.special.eos}, {"unk", &spec.special.unk},
      {"sep", &spec.special.sep},  {"pad", &spec.special.pad}, {"cls", &spec.special.cls},
      {"mask", &spec.special.mask}};
  for (const auto& [role, target] : targets) {
    const auto token = named_token(options, role);
    const auto name = token ? token->content : usual_name(family, role);
    if (!name.empty()) *target = find_token(spec, name);
  }
}

// The templates of a family.
struct Templates {
  std::vector<TemplatePiece> single, pair;
};

std::optional<Templates> templates_of(const TokenizerSpec& spec, Family family) {
  if (family == Family::gpt2 || family == Family::t5) return std::nullopt;
  if (!spec.special.cls || !spec.special.sep) return std::nullopt;
  const auto text = [](int sequence, std::int32_t type) {
    return TemplatePiece{.sequence = sequence, .ids = {}, .type_id = type};
  };
  const auto token = [](std::int32_t id, std::int32_t type) {
    return TemplatePiece{.sequence = -1, .ids = {id}, .type_id = type};
  };
  const auto cls = *spec.special.cls;
  const auto sep = *spec.special.sep;
  Templates templates;
  const std::int32_t first = family == Family::funnel ? 2 : 0;
  templates.single = {token(cls, first), text(0, 0), token(sep, 0)};
  templates.pair = templates.single;
  const bool two_types = family == Family::bert || family == Family::funnel ||
                         family == Family::albert || family == Family::deberta;
  const std::int32_t second = two_types ? 1 : 0;
  if (!two_types) templates.pair.push_back(token(sep, 0));
  templates.pair.push_back(text(1, second));
  templates.pair.push_back(token(sep, second));
  return templates;
}

void set_template(TokenizerSpec& spec, Family family, const std::string& file) {
  const auto templates = templates_of(spec, family);
  require(templates || family == Family::gpt2,
          "{}: expected tokens for the roles cls and sep, found none in the vocabulary", file);
  if (!templates) return;
  spec.single = templates->single;
  spec.pair = templates->pair;
}

// Takes the template of the class where tokenizer.json has none.
void reconcile_template(TokenizerSpec& spec, Family family, const FolderOptions& options,
                        const std::string& file) {
  const auto templates = templates_of(spec, family);
  if (!templates || (spec.single == templates->single && spec.pair == templates->pair)) return;
  if (spec.has_post_processor) {
    spec.notes.push_back(
        fmt::format("{}: post_processor is used as it stands; transformers 5 replaces it by the "
                    "one of {}, transformers 4 does not",
                    file, options.settings.name));
    return;
  }
  spec.single = templates->single;
  spec.pair = templates->pair;
  if (spec.kind == TokenizerKind::byte_level_bpe && options.settings.trim_offsets.value_or(false)) {
    spec.trimming.push_back({spec.add_prefix_space});
  }
}

// The template of mBART: the language of the folder behind the text and its end, or before it.
void set_language(TokenizerSpec& spec, const FolderOptions& options) {
  const ClassSettings& settings = options.settings;
  constexpr const char* kUsual = "en_XX";
  const auto language = find_token(spec, settings.language.empty() ? kUsual : settings.language);
  require(language || settings.language.empty(),
          "{}: src_lang: expected a language among the tokens, found '{}'", options.config_file,
          settings.language);
  if (!language || !spec.special.eos) return;
  const TemplatePiece tag = {.sequence = -1, .ids = {*language}, .type_id = 0};
  const TemplatePiece end = {.sequence = -1, .ids = {*spec.special.eos}, .type_id = 0};
  const TemplatePiece first = {.sequence = 0, .ids = {}, .type_id = 0};
  const TemplatePiece second = {.sequence = 1, .ids = {}, .type_id = 0};
  if (settings.language_first) {
    spec.single = {tag, first, end};
    spec.pair = {tag, first, second, end};
  } else {
    spec.single = {first, end, tag};
    spec.pair = {first, second, end, tag};
  }
  const std::string& target = settings.target_language;
  if (!target.empty() && target != (settings.language.empty() ? kUsual : settings.language)) {
    spec.notes.push_back(fmt::format(
        "{}: tgt_lang {} is not read: texts to learn are read as those of the source language",
        options.config_file, target));
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// The lines of a text file in UTF-8, without a byte-order mark.
std::vector<std::string_view> lines_of_file(const std::string& text, const std::string& file) {
  require(is_valid_utf8(text), "{}: expected UTF-8 text, found other bytes", file);
  std::string_view view = text;
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (view.starts_with(kMark)) view.remove_prefix(kMark.size());
  return lines_of(view);
}

void add_special_tokens(TokenizerSpec& spec, const FolderOptions& options, Family family) {
  add_listed_tokens(spec, options);
  add_named_tokens(spec, options, family, true);
  set_roles(spec, options, family);
}

TokenizerSpec read_byte_pair_files(const fs::path& folder, const FolderOptions& options) {
  const auto vocabulary_file = (folder / "vocab.json").string();
  const auto merges_file = (folder / "merges.txt").string();
  auto tables = read_json_tables(vocabulary_file, TableLayout::whole_file);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::byte_level_bpe;
  spec.vocabulary = std::move(tables.vocabulary);
  spec.vocabulary.finish(vocabulary_file);
  const auto text = read_text_file(merges_file);
  std::vector<std::string> merges;
  for (const auto line : lines_of_file(text, merges_file)) {
    if (!line.empty() && !line.starts_with("#version")) add_merge(line, merges_file, merges);
  }
  set_merges(spec, merges, merges_file);
  const auto family = family_of(spec, options);
  spec.decoding.push_back({.kind = DecodingKind::byte_level});
  spec.add_prefix_space = flag(options, "add_prefix_space").value_or(false);
  if (family == Family::roberta && flag(options, "trim_offsets").value_or(true)) {
    spec.trimming.push_back({spec.add_prefix_space});
  }
  add_special_tokens(spec, options, family);
  require_merges(spec, merges_file);
  set_template(spec, family, vocabulary_file);
  return spec;
}

std::string_view without_trailing_space(std::string_view line) {
  while (!line.empty()) {
    auto last = line.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(line[last]) & 0xc0) == 0x80) --last;
    const auto character = decode_character(line, last);
    if (!(character_flags(character.value) & CharacterFlags::whitespace)) break;
    line = line.substr(0, last);
  }
  return line;
}

TokenizerSpec read_word_piece_files(const fs::path& folder, const FolderOptions& options) {
  const auto file = (folder / "vocab.txt").string();
  const auto text = read_text_file(file);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::word_piece;
  std::int64_t id = 0;
  for (const auto line : lines_of_file(text, file)) {
    spec.vocabulary.add(without_trailing_space(line), id++, file);
  }
  spec.vocabulary.finish(file);
  const auto family = family_of(spec, options);
  add_bert_normalization(spec, bert_normalization(options), true);
  spec.decoding.push_back({.kind = DecodingKind::word_piece});
  add_special_tokens(spec, options, family);
  require(spec.special.unk && spec.vocabulary.has(*spec.special.unk),
          "{}: expected the unknown token in the vocabulary, found none", file);
  spec.word_piece.unknown = *spec.special.unk;
  set_template(spec, family, file);
  return spec;
}

// The tokenizer of DeBERTa as SentencePiece and transformers 4 have it (DebertaV2Converter).
TokenizerSpec read_deberta_files(const fs::path& path, const FolderOptions& options) {
  const auto file = path.string();
  const SentencePieceModel model = parse_sentence_piece(read_text_file(file), file);
  require(model.is_unigram, "{}: expected a unigram model, found one of another kind", file);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::unigram;
  for (const auto& piece : model.pieces) {
    spec.vocabulary.add(piece.text, std::ssize(spec.unigram.scores), file);
    spec.unigram.scores.push_back(piece.score);
  }
  spec.vocabulary.finish(file, true);
  spec.unigram.unknown = model.unknown;
  using Step = NormalizationKind;
  if (flag(options, "do_lower_case").value_or(false)) {
    spec.normalization.emplace_back(Step::lowercase);
  }
  spec.normalization.emplace_back(Step::strip_ends);
  if (!model.character_map.empty()) {
    spec.normalization.emplace_back(Step::map);
    spec.normalization.back().map =
        std::make_shared<const CharacterMap>(CharacterMap::of_bytes(model.character_map, file));
    spec.notes.push_back(fmt::format(
        "{}: its character map counts, as in SentencePiece and transformers 4; transformers 5 "
        "composes characters in its place",
        file));
  }
  NormalizationStep& spaces = spec.normalization.emplace_back(Step::replace);
  spaces.pattern = spaces.content = U" ";
  spaces.run = 2;
  if (flag(options, "split_by_punct").value_or(false)) {
    spec.cuts.push_back({.kind = PieceCut::Kind::punctuation});
  }
  spec.cuts.emplace_back();
  spec.decoding.push_back({.drops_first = true});
  for (const auto& piece : model.pieces) {
    using Type = SentencePieceModel::Type;
    if (piece.type != Type::control && piece.type != Type::user_defined) continue;
    add_token(spec,
              {.content = piece.text, .normalized = false, .special = piece.type == Type::control},
              file);
  }
  add_special_tokens(spec, options, Family::deberta);
  set_template(spec, Family::deberta, file);
  return spec;
}

TokenizerSpec read_serialized(const fs::path& path, const FolderOptions& options) {
  const auto file = path.string();
  auto spec = read_tokenizer_json(file, options.settings);
  const auto family = family_of_class(spec, options);
  add_listed_tokens(spec, options);
  add_named_tokens(spec, options, family, false);
  require_merges(spec, file);
  set_roles(spec, options, family.value_or(family_of(spec, options)));
  if (family) reconcile_template(spec, *family, options, file);
  if (options.settings.kind == TokenizerClass::mbart) set_language(spec, options);
  return spec;
}

// Tokens that a training added stand behind the bytes.
TokenizerSpec read_byte_tokens(const fs::path& folder, const FolderOptions& options) {
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt"}) {
    require(!fs::exists(folder / name),
            "{}: expected no {} beside the vocabulary bytes of config.json, found one",
            folder.string(), name);
  }
  TokenizerSpec spec = byte_tokenizer();
  add_listed_tokens(spec, options);
  add_further_tokens(spec, options);
  return spec;
}

}  // namespace

std::optional<std::int32_t> find_token(const TokenizerSpec& spec, std::string_view token) {
  for (const auto& added : spec.added) {
    if (added.content == token) return added.id;
  }
  return spec.vocabulary.find(token);
}

void add_token(TokenizerSpec& spec, AddedToken token, const std::string& file) {
  require(!token.content.empty(), "{}: expected added tokens with content, found an empty one",
          file);
  for (auto& known : spec.added) {
    if (known.content == token.content) {
      token.id = known.id;
      known = std::move(token);
      return;
    }
  }
  if (const auto id = spec.vocabulary.find(token.content)) {
    token.id = *id;
  } else {
    auto next = spec.vocabulary.count();
    for (const auto& known : spec.added) next = std::max<std::int64_t>(next, known.id + 1);
    require(next < Vocabulary::id_limit, "{}: expected less than {} tokens", file,
            Vocabulary::id_limit);
    token.id = static_cast<std::int32_t>(next);
  }
  spec.added.push_back(std::move(token));
}

void set_merges(TokenizerSpec& spec, const std::vector<std::string>& pairs,
                const std::string& file) {
  std::string whole;
  const auto id_of = [&](const std::string& token, std::size_t merge) {
    const auto id = spec.vocabulary.find(token);
    require(id.has_value(),
            "{}: expected merges of tokens of the vocabulary, found '{}' in merge {}", file, token,
            merge + 1);
    return *id;
  };
  spec.merges.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    whole = pairs[i];
    whole += pairs[i + 1];
    spec.merges.push_back(
        {id_of(pairs[i], i / 2), id_of(pairs[i + 1], i / 2), id_of(whole, i / 2)});
  }
}

void require_merges(const TokenizerSpec& spec, const std::string& file) {
  if (!spec.merges.empty() || spec.byte_pair.ignore_merges) return;
  if (spec.kind != TokenizerKind::byte_level_bpe) return;
  std::int64_t longer = 0;
  for (std::int32_t id = 0; id < spec.vocabulary.id_end(); ++id) {
    const std::string token(spec.vocabulary.token(id));
    const bool marked = token.starts_with('<') || token.starts_with('[');
    if (token.empty() || marked || is_added(spec, token)) continue;
    if (decode_character(token, 0).size < token.size()) ++longer;
  }
  require(longer == 0,
          "{}: expected the merges that make {} tokens of the vocabulary, found no merge", file,
          longer);
}

bool has_tokenizer(const fs::path& root) {
  const fs::path folder = encoder_folder(root.string());
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "vocab.txt") ||
         fs::exists(folder / "vocab.json") || fs::exists(folder / kDebertaFile) ||
         reads_bytes(folder);
}

TokenizerSpec read_tokenizer(const std::string& folder) {
  const fs::path root(folder);
  require(fs::is_directory(root), "{}: expected a folder, found none", folder);
  const auto options = read_folder_options(root);
  if (reads_bytes(root)) return read_byte_tokens(root, options);
  if (const auto path = root / "tokenizer.json"; fs::exists(path)) {
    return read_serialized(path, options);
  }
  if (fs::exists(root / "vocab.json")) {
    require(fs::exists(root / "merges.txt"),
            "{}: expected merges.txt beside vocab.json, found none", folder);
    return read_byte_pair_files(root, options);
  }
  const bool is_deberta = options.settings.kind == TokenizerClass::deberta;
  if (is_deberta && fs::exists(root / kDebertaFile)) {
    return read_deberta_files(root / kDebertaFile, options);
  }
  for (const auto* name :
       {"sentencepiece.bpe.model", "spiece.model", kDebertaFile, "tokenizer.model"}) {
    require(fs::exists(root / "vocab.txt") || !fs::exists(root / name),
            "{0}: expected tokenizer.json, found only {1}; transformers writes one: "
            "AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")",
            folder, name);
  }
  require(fs::exists(root / "vocab.txt"),
          "{}: expected tokenizer.json, vocab.json with merges.txt, or vocab.txt, found none",
          folder);
  return read_word_piece_files(root, options);
}

}  // namespace longformer::text
