#include "engine/frame/table.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/words.h"
#include "formats/unused_keys.h"

namespace longformer::engine {
namespace {

bool is_named(const models::EncoderConfig& config, const Task& task) {
  const TaskNames& names = task.names();
  if (names.head.empty()) return false;
  return config.architecture.ends_with(names.class_ending) ||
         (!names.other_class.empty() && config.architecture == names.other_class);
}

/// The task that a verb asks for: `evaluate` has names of its own. Throws Error for no name.
const Task& task_asked_for(std::string_view verb) {
  for (const Task* task : all_tasks()) {
    if (task->names().evaluation == verb) return *task;
  }
  return task_of_verb(verb);
}

/// Whether only this head has such tensors.
bool is_unmistakable(const models::EncoderConfig& config, const Task& task,
                     const models::Weights& weights) {
  const auto parts = task.parts(config);
  if (!parts) return true;
  return parts->is_unmistakable ||
         (parts->has_own_layer() && weights.has(std::string(parts->layer->name) + ".weight"));
}

/// The note of one object; of our own formats one that no head reads is refused.
std::string unused_settings(const models::EncoderConfig& config, const std::string& key,
                            const models::HeadSettings& settings) {
  for (const Task* task : all_tasks()) {
    if (task->settings_key() == key) return task->unused_settings(config);
  }
  const Json object = {{key, settings.object}};
  const formats::ConfigReader reader(object, settings.file);
  if (!config.family->base.empty()) formats::refuse_unused_keys(reader);
  return formats::unused_keys_note(reader, {});
}

}  // namespace

const Task* task_of(const models::EncoderConfig& config, const models::Weights& weights) {
  const Task* on_request = nullptr;
  for (const Task* task : all_tasks()) {
    if (!task->is_present(config, weights)) continue;
    // A masked-LM head may stand beside another one, which then is that of the folder.
    if (task->has_logits_on_request()) {
      on_request = task;
    } else if (config.architecture.empty() ? is_unmistakable(config, *task, weights)
                                           : is_named(config, *task)) {
      return task;
    }
  }
  return on_request;
}

const Task* task_for(const models::EncoderConfig& config, const models::Weights& weights,
                     std::string_view verb) {
  const Task* named = task_named(config);
  // A pretraining class names no head of a task.
  const bool is_unnamed = named == nullptr || named->has_logits_on_request();
  if (!verb.empty() && is_unnamed) {
    const Task& wanted = task_asked_for(verb).of_head();
    if (!wanted.makes_vectors() && wanted.is_present(config, weights)) return &wanted;
  }
  return task_of(config, weights);
}

const Task& task_of_data(const std::string& path, const DataOptions& options) {
  // If the data are one JSON value, the last member of the first record must be in it.
  constexpr std::size_t kBeginning = std::size_t{1} << 18;
  const std::string file = read_beginning(path, options, kBeginning);
  std::string_view beginning = file;
  beginning.remove_prefix(std::min(beginning.find_first_not_of(" \t\r\n"), beginning.size()));
  for (const Task* task : all_tasks()) {
    if (task->recognises(beginning)) return *task;
  }
  fail("{}: expected data in a form that is published for one of the tasks, found others", path);
}

const Task* task_named(const models::EncoderConfig& config) {
  const auto tasks = all_tasks();
  const auto found = std::find_if(tasks.begin(), tasks.end(),
                                  [&](const Task* task) { return is_named(config, *task); });
  return found == tasks.end() ? nullptr : *found;
}

const Task& task_of_verb(std::string_view verb) {
  for (const Task* task : all_tasks()) {
    if (!verb.empty() && task->names().verb == verb) return *task;
  }
  fail(OptionName("task"), "expected {}, found \"{}\"", verb_names(), verb);
}

std::vector<std::string> training_verbs() {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) {
    if (!task->names().verb.empty()) names.emplace_back(task->names().verb);
  }
  return names;
}

std::vector<std::string> evaluation_names() {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) {
    const TaskNames& one = task->names();
    if (!one.verb.empty() || !one.evaluation.empty()) {
      names.emplace_back(one.verb.empty() ? one.evaluation : one.verb);
    }
  }
  return names;
}

std::string verb_names() {
  const std::vector<std::string> verbs = training_verbs();
  return alternatives(std::vector<std::string_view>(verbs.begin(), verbs.end()));
}

const Task* requested_task() {
  for (const Task* task : all_tasks()) {
    if (task->has_logits_on_request()) return task;
  }
  return nullptr;
}

std::string unused_keys(const models::EncoderConfig& config) {
  std::string notes;
  const auto add = [&notes](const std::string& note) {
    if (!note.empty()) notes += (notes.empty() ? "" : "; ") + note;
  };
  for (const auto& [key, settings] : config.head_settings)
    add(unused_settings(config, key, settings));
  add(config.unused_keys);
  return notes;
}

std::string_view head_name(const Task* task) {
  return task == nullptr ? std::string_view() : task->names().head;
}

}  // namespace longformer::engine
