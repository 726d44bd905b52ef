// Reading of tokenizer folders: older files, and the roles of special tokens.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "text/json_stream.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

enum class Family { bert, roberta, gpt2, albert, t5 };

// tokenizer_config.json, special_tokens_map.json and added_tokens.json as far as they exist.
struct FolderOptions {
  Json config = Json::object();
  Json special = Json::object();
  Json added = Json::object();
  std::string config_file, added_file;
};

Json read_if_present(const std::string& path) {
  if (!fs::exists(path)) return Json::object();
  return read_json_tables(path, TableLayout::none).rest;
}

FolderOptions read_options(const fs::path& folder) {
  FolderOptions options;
  options.config_file = (folder / "tokenizer_config.json").string();
  options.added_file = (folder / "added_tokens.json").string();
  options.config = read_if_present(options.config_file);
  options.special = read_if_present((folder / "special_tokens_map.json").string());
  options.added = read_if_present(options.added_file);
  return options;
}

std::optional<bool> flag(const FolderOptions& options, const std::string& key) {
  if (!options.config.contains(key) || options.config[key].is_null()) return std::nullopt;
  require(options.config[key].is_boolean(), "{}: expected true or false for {}, found {}",
          options.config_file, key, options.config[key].dump());
  return options.config[key].get<bool>();
}

AddedToken special_token(std::string content) {
  AddedToken token;
  token.content = std::move(content);
  token.normalized = false;
  token.special = true;
  return token;
}

// A token as the files write it: text, or an object with options. Nothing for other types.
std::optional<AddedToken> token_of(const Json& value, bool special) {
  if (value.is_string()) {
    auto token = special_token(value.get<std::string>());
    return token;
  }
  if (!value.is_object() || !value.contains("content") || !value["content"].is_string()) {
    return std::nullopt;
  }
  const auto on = [&](const char* key, bool otherwise) {
    return value.contains(key) && value[key].is_boolean() ? value[key].get<bool>() : otherwise;
  };
  AddedToken token;
  token.content = value["content"].get<std::string>();
  token.special = special || on("special", false);
  token.single_word = on("single_word", false);
  token.left_strip = on("lstrip", false);
  token.right_strip = on("rstrip", false);
  token.normalized = on("normalized", !token.special);
  return token;
}

std::optional<AddedToken> named_token(const FolderOptions& options, const std::string& role) {
  for (const auto* source : {&options.special, &options.config}) {
    if (source->contains(role + "_token")) {
      if (auto token = token_of((*source)[role + "_token"], true)) return token;
    }
  }
  return std::nullopt;
}

constexpr std::array<const char*, 7> roles{"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

// What the token classes of the families call their special tokens.
std::string usual_name(Family family, const std::string& role) {
  static const std::map<std::string, std::string> bert{
      {"unk", "[UNK]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}};
  static const std::map<std::string, std::string> roberta{
      {"bos", "<s>"},   {"eos", "</s>"}, {"unk", "<unk>"},  {"sep", "</s>"},
      {"pad", "<pad>"}, {"cls", "<s>"},  {"mask", "<mask>"}};
  static const std::map<std::string, std::string> gpt2{
      {"bos", "<|endoftext|>"}, {"eos", "<|endoftext|>"}, {"unk", "<|endoftext|>"}};
  static const std::map<std::string, std::string> albert{
      {"bos", "[CLS]"}, {"eos", "[SEP]"}, {"unk", "<unk>"},  {"sep", "[SEP]"},
      {"pad", "<pad>"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}};
  static const std::map<std::string, std::string> t5{
      {"eos", "</s>"}, {"unk", "<unk>"}, {"pad", "<pad>"}};
  static const std::map<Family, const std::map<std::string, std::string>*> families{
      {Family::bert, &bert},
      {Family::roberta, &roberta},
      {Family::gpt2, &gpt2},
      {Family::albert, &albert},
      {Family::t5, &t5}};
  const auto& names = *families.at(family);
  const auto found = names.find(role);
  return found == names.end() ? "" : found->second;
}

Family family_of(const TokenizerSpec& spec, const FolderOptions& options) {
  if (spec.kind == TokenizerKind::word_piece) return Family::bert;
  if (spec.kind == TokenizerKind::unigram) {
    if (find_token(spec, "[CLS]")) return Family::albert;
    return find_token(spec, "<s>") ? Family::roberta : Family::t5;
  }
  const auto& name =
      options.config.contains("tokenizer_class") ? options.config["tokenizer_class"] : Json();
  if (name.is_string() && name.get<std::string>().starts_with("GPT2")) return Family::gpt2;
  return find_token(spec, "<s>") && find_token(spec, "</s>") ? Family::roberta : Family::gpt2;
}

// Tokens of the older files, in the order of their ids.
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

bool is_added(const TokenizerSpec& spec, const std::string& content) {
  return std::any_of(spec.added.begin(), spec.added.end(),
                     [&](const AddedToken& token) { return token.content == content; });
}

void add_named_tokens(TokenizerSpec& spec, const FolderOptions& options, Family family) {
  for (const std::string role : roles) {
    auto token = named_token(options, role);
    const auto usual = usual_name(family, role);
    if (!token && !usual.empty()) token = special_token(usual);
    if (!token || token->content.empty() || is_added(spec, token->content)) continue;
    const bool in_files =
        options.config.contains(role + "_token") || options.special.contains(role + "_token");
    if (!in_files && !find_token(spec, token->content)) continue;
    const bool has_options =
        options.special.contains("mask_token")
            ? options.special["mask_token"].is_object()
            : options.config.contains("mask_token") && options.config["mask_token"].is_object();
    // RoBERTa's mask takes the space before it, as it was trained.
    if (role == "mask" && family == Family::roberta && !has_options) token->left_strip = true;
    add_token(spec, std::move(*token), options.config_file);
  }
  for (const auto* key : {"additional_special_tokens", "extra_special_tokens"}) {
    for (const auto* source : {&options.config, &options.special}) {
      if (!source->contains(key) || !(*source)[key].is_array()) continue;
      for (const auto& value : (*source)[key]) {
        auto token = token_of(value, true);
        if (token && !is_added(spec, token->content)) {
          add_token(spec, std::move(*token), options.config_file);
        }
      }
    }
  }
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

void set_template(TokenizerSpec& spec, Family family, const std::string& file) {
  if (family == Family::gpt2) return;
  require(spec.special.cls && spec.special.sep,
          "{}: expected tokens for the roles cls and sep, found none in the vocabulary", file);
  const auto text = [](int sequence, std::int32_t type) {
    return TemplatePiece{.sequence = sequence, .ids = {}, .type_id = type};
  };
  const auto token = [](std::int32_t id, std::int32_t type) {
    return TemplatePiece{.sequence = -1, .ids = {id}, .type_id = type};
  };
  const auto cls = *spec.special.cls;
  const auto sep = *spec.special.sep;
  spec.single = {token(cls, 0), text(0, 0), token(sep, 0)};
  spec.pair = spec.single;
  const std::int32_t second = family == Family::bert ? 1 : 0;
  if (family == Family::roberta) spec.pair.push_back(token(sep, 0));
  spec.pair.push_back(text(1, second));
  spec.pair.push_back(token(sep, second));
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
  for (const auto line : lines_of(text)) {
    if (!line.empty() && !line.starts_with("#version")) add_merge(line, merges_file, merges);
  }
  set_merges(spec, merges, merges_file);
  const auto family = family_of(spec, options);
  spec.decoding.push_back({.kind = DecodingKind::byte_level});
  spec.add_prefix_space = flag(options, "add_prefix_space").value_or(false);
  if (family == Family::roberta && flag(options, "trim_offsets").value_or(true)) {
    spec.trimming.push_back({spec.add_prefix_space});
  }
  add_listed_tokens(spec, options);
  add_named_tokens(spec, options, family);
  set_roles(spec, options, family);
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
  using Step = NormalizationKind;
  const auto file = (folder / "vocab.txt").string();
  const auto text = read_text_file(file);
  require(is_valid_utf8(text), "{}: expected UTF-8 text, found other bytes", file);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::word_piece;
  std::int64_t id = 0;
  for (const auto line : lines_of(text)) {
    spec.vocabulary.add(without_trailing_space(line), id++, file);
  }
  spec.vocabulary.finish(file);
  const bool lowercase = flag(options, "do_lower_case").value_or(true);
  spec.normalization.emplace_back(Step::clean);
  if (flag(options, "tokenize_chinese_chars").value_or(true)) {
    spec.normalization.emplace_back(Step::space_chinese);
  }
  if (flag(options, "strip_accents").value_or(lowercase)) {
    spec.normalization.emplace_back(Step::decompose);
    spec.normalization.emplace_back(Step::strip_nonspacing);
  }
  if (lowercase) spec.normalization.emplace_back(Step::lowercase);
  spec.decoding.push_back({.kind = DecodingKind::word_piece});
  add_listed_tokens(spec, options);
  add_named_tokens(spec, options, Family::bert);
  set_roles(spec, options, Family::bert);
  require(spec.special.unk && spec.vocabulary.has(*spec.special.unk),
          "{}: expected the unknown token in the vocabulary, found none", file);
  spec.word_piece.unknown = *spec.special.unk;
  set_template(spec, Family::bert, file);
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

bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "vocab.txt") ||
         fs::exists(folder / "vocab.json");
}

TokenizerSpec read_tokenizer(const std::string& folder) {
  const fs::path root(folder);
  require(fs::is_directory(root), "{}: expected a folder, found none", folder);
  const auto options = read_options(root);
  if (const auto path = root / "tokenizer.json"; fs::exists(path)) {
    auto spec = read_tokenizer_json(path.string());
    set_roles(spec, options, family_of(spec, options));
    return spec;
  }
  if (fs::exists(root / "vocab.json")) {
    require(fs::exists(root / "merges.txt"),
            "{}: expected merges.txt beside vocab.json, found none", folder);
    return read_byte_pair_files(root, options);
  }
  for (const auto* name :
       {"sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"}) {
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
