#include "engine/frame/predictions.h"

#include "formats/json.h"

namespace longformer::engine {

AnswersById answers_by_id(const Json& value, const std::string& path) {
  require(value.is_object(), "{}: expected an object of answers by id, found {}", path,
          formats::shown(value));
  AnswersById answers;
  for (const auto& [id, answer] : value.items()) {
    require(answer.is_string(), "{}: {}: expected an answer as a string, found {}", path, id,
            formats::shown(answer));
    answers[id] = answer.get<std::string>();
  }
  return answers;
}

AnswersById read_answers(const std::string& path) {
  return answers_by_id(read_whole_json(path, {}), path);
}

std::string answers_text(const AnswersById& answers) {
  return Json(answers).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace longformer::engine
