#include "module.h"

#include "addnorm.h"
#include "addnorm/error.h"

PYBIND11_MODULE(_core, m) {
  m.attr("__version__") = addnorm_version();
  pybind11::register_exception<addnorm::Error>(m, "Error", PyExc_ValueError);
  addnorm::python::add_norms(m);
  addnorm::python::add_lab(m);
  addnorm::python::add_doctor(m);
  addnorm::python::add_program(m);
}
