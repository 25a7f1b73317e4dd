// _core.Demand: what a consumer takes, as the files in frameworks/ say it.
#pragma once

#include "decide.h"
#include "pyref.h"

namespace candle {

/// The Demand in a Python object; nullptr with a TypeError set where it is none.
const Demand* demand_of(PyObject* object) noexcept;

int init_demand_type(PyObject* module) noexcept;

}  // namespace candle
