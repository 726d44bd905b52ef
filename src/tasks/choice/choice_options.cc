#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"

namespace longformer {

OptionFields fields(ChooseOptions& options) { return reading_fields(options); }

}  // namespace longformer
