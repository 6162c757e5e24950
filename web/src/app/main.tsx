import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { Shell } from "./shell";
import "./styles.css";

const root = document.getElementById("page");
if (root) render(<Shell />, root);
