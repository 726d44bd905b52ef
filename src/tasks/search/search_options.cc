#include "tasks/search/search_options.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/option_fields.h"
#include "engine/run/reading_fields.h"

namespace longformer {
namespace tasks {

OptionField language_field(std::optional<std::string>& language) {
  return {.name = "language",
          .value = &language,
          .help =
              "compare words by their stems in this language; else that of the index, english "
              "for a new one",
          .choices = search_languages()};
}

OptionField passage_prompt_field(std::optional<std::string>& prompt) {
  return {.name = "passage_prompt",
          .value = &prompt,
          .help = "put this text before every passage; else the prompt 'document' of the folder",
          .type = "TEXT"};
}

OptionField rerank_depth_field(std::int64_t& depth) {
  return {.name = "rerank_depth",
          .value = &depth,
          .help = "so many of the best are scored again by the reranker ({})",
          .type = "N",
          .least = 1,
          .most = 1 << 20};
}

OptionField search_mode_field(SearchMode& mode) {
  return with_names(
      {.name = "mode",
       .help =
           "rank by words and vectors, by words, or by vectors of one kind: of passages, sparse "
           "ones, or those of tokens ({})"},
      mode,
      {{"hybrid", SearchMode::hybrid},
       {"dense", SearchMode::dense},
       {"lexical", SearchMode::lexical},
       {"sparse", SearchMode::sparse},
       {"multi", SearchMode::multi}});
}

OptionField vectors_field(std::optional<VectorKinds>& kinds) {
  return {
      .name = "vectors",
      .value =
          OptionField::Text{[&kinds](const std::string& names) { kinds = vector_kinds(names); },
                            [&kinds] { return kinds ? name_of(*kinds) : std::string(); }},
      .help =
          "kinds of vectors in a new index, of dense, sparse and multi, or none, for a search by "
          "words alone; else dense, or what the folder makes, and that of --mode",
      .type = "KINDS"};
}

}  // namespace tasks

namespace {

OptionField similarity_field(std::optional<Similarity>& similarity) {
  std::vector<std::pair<std::string, std::optional<Similarity>>> names;
  for (const Similarity one :
       {Similarity::cosine, Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    names.emplace_back(name_of(one), one);
  }
  return with_names(
      {.name = "similarity",
       .help = "similarity of vectors in a new index; else that of the folder, or cosine"},
      similarity, names);
}

}  // namespace

OptionFields fields(SearchOptions& options) {
  OptionFields all = fields(options.passages);
  append(all, {tasks::language_field(options.language), similarity_field(options.similarity),
               tasks::passage_prompt_field(options.passage_prompt),
               tasks::vectors_field(options.vectors)});
  return all;
}

OptionFields fields(SearchQuery& query) {
  return {{.name = "top_k",
           .value = &query.top_k,
           .help = "passages per question ({})",
           .type = "N",
           .least = 1,
           .most = 1 << 20},
          tasks::search_mode_field(query.mode),
          {.name = "within",
           .value = &query.within,
           .help = "search in this document alone, or in those of this folder; may be repeated",
           .type = "TEXT",
           .is_repeated = true},
          {.name = "filter",
           .value = &query.filter,
           .help = "search only in documents whose metadata are so, as year>=2020, author=Smith, "
                   "title~part, date<2024-05 or path=notes/*.md; may be repeated: all must hold",
           .type = "EXPR",
           .is_repeated = true},
          {.name = "query_prompt",
           .value = &query.prompt,
           .help = "put this text before every question; else the prompt 'query' of the folder",
           .type = "TEXT"},
          {.name = "no_phrases",
           .value = &query.phrases,
           .help = "quotation marks in a question mean nothing",
           .is_contrary = true},
          truncate_field(query.too_long),
          tasks::rerank_depth_field(query.rerank_depth)};
}

}  // namespace longformer
