#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"

namespace longformer {

OptionFields fields(TagOptions& options) {
  OptionFields all = {
      with_names({.name = "aggregation",
                  .help = "none (every token), simple (runs of one label), or whole words with the "
                          "label of their first token, their average or their maximum ({})"},
                 options.aggregation,
                 {{"none", Aggregation::none},
                  {"simple", Aggregation::simple},
                  {"first", Aggregation::first},
                  {"average", Aggregation::average},
                  {"max", Aggregation::max}}),
      {.name = "ignore_labels",
       .value = &options.ignored_labels,
       .help = "labels to leave out ({})",
       .type = "LIST"}};
  append(all, reading_fields(options));
  all.push_back(max_length_field(options.max_length));
  return all;
}

}  // namespace longformer
