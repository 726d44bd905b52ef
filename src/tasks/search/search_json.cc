#include <span>
#include <string>

#include "longformer/report.h"
#include "longformer/search.h"

namespace longformer {

std::string to_json(const SearchHit& hit) {
  JsonLine json;
  json.add("file", hit.file).add("begin", hit.span.begin).add("end", hit.span.end);
  json.add("score", hit.score);
  if (hit.similarity) json.add("similarity", *hit.similarity);
  if (hit.words) json.add("words", *hit.words);
  json.add("text", hit.text).add("matched", std::span<const CharacterSpan>(hit.matched));
  return json.object();
}

std::string to_json(const IndexedDocument& document) {
  JsonLine json;
  json.add("file", document.name).add("passages", document.passages);
  json.add("characters", document.characters).add("hash", document.hash);
  return json.add("time", document.time).object();
}

}  // namespace longformer
